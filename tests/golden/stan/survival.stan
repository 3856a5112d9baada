// Survival times, some censored: twin of tests/exactness/cookbook/survival.rs.
data {
  int<lower=0> patients;
  matrix[patients, 3] x;
  vector<lower=0>[patients] time;
  array[patients] int<lower=0, upper=1> died;
}
parameters {
  real<lower=0> shape;
  vector[3] beta;
}
transformed parameters {
  vector[patients] scale = exp(x * beta);
}
model {
  shape ~ lognormal(0, 1);
  beta ~ normal(0, 2.5);
  for (i in 1 : patients) {
    if (died[i]) {
      time[i] ~ weibull(shape, scale[i]);
    } else {
      target += weibull_lccdf(time[i] | shape, scale[i]);
    }
  }
}
generated quantities {
  array[patients] real time_rep = weibull_rng(shape, scale);
  vector[patients] log_lik;
  for (i in 1 : patients) {
    if (died[i]) {
      log_lik[i] = weibull_lpdf(time[i] | shape, scale[i]);
    } else {
      log_lik[i] = weibull_lccdf(time[i] | shape, scale[i]);
    }
  }
}
