// A line through data with outliers: twin of tests/exactness/cookbook/robust.rs.
data {
  int<lower=0> rows;
  matrix[rows, 2] x;
  vector[rows] y;
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
  real<lower=0> degrees;
}
transformed parameters {
  vector[rows] mu = x * beta;
}
model {
  beta ~ normal(0, 2.5);
  sigma ~ normal(0, 2);
  degrees ~ gamma(2, 0.1);
  y ~ student_t(degrees, mu, sigma);
}
generated quantities {
  array[rows] real y_rep = student_t_rng(degrees, mu, sigma);
  vector[rows] log_lik;
  for (i in 1 : rows) {
    log_lik[i] = student_t_lpdf(y[i] | degrees, mu[i], sigma);
  }
}
