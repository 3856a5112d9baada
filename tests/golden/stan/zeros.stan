// Counts with many zeros: twin of tests/exactness/cookbook/zeros.rs.
data {
  int<lower=0> rows;
  matrix[rows, 2] x;
  array[rows] int<lower=0> y;
}
parameters {
  vector[2] beta;
  real gate;
}
transformed parameters {
  vector[rows] log_rate = x * beta;
}
model {
  beta ~ normal(0, 2.5);
  gate ~ normal(0, 1.5);
  for (i in 1 : rows) {
    if (y[i] == 0) {
      target += log_sum_exp(log_inv_logit(gate), log1m_inv_logit(gate) + poisson_log_lpmf(0 | log_rate[i]));
    } else {
      target += log1m_inv_logit(gate) + poisson_log_lpmf(y[i] | log_rate[i]);
    }
  }
}
generated quantities {
  array[rows] int y_rep;
  vector[rows] log_lik;
  for (i in 1 : rows) {
    y_rep[i] = bernoulli_logit_rng(gate) ? 0 : poisson_log_rng(log_rate[i]);
    log_lik[i] = log1m_inv_logit(gate) + poisson_log_lpmf(y[i] | log_rate[i]);
    if (y[i] == 0) {
      log_lik[i] = log_sum_exp(log_inv_logit(gate), log_lik[i]);
    }
  }
}
