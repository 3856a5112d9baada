// Patients with unequal numbers of visits: twin of tests/exactness/cookbook/unequal_groups.rs.
data {
  int<lower=0> visits;
  int<lower=0> patients;
  array[visits] int<lower=1, upper=patients> patient;
  matrix[visits, 3] x;
  array[visits] int<lower=0, upper=1> y;
}
parameters {
  vector[3] beta;
  real<lower=0> sd_patient;
  vector<multiplier=sd_patient>[patients] b;
}
transformed parameters {
  vector[visits] eta = x * beta + b[patient];
}
model {
  beta ~ normal(0, 2.5);
  sd_patient ~ normal(0, 2);
  b ~ normal(0, sd_patient);
  y ~ bernoulli_logit(eta);
}
generated quantities {
  array[visits] int y_rep = bernoulli_logit_rng(eta);
  vector[visits] log_lik;
  for (i in 1 : visits) {
    log_lik[i] = bernoulli_logit_lpmf(y[i] | eta[i]);
  }
}
