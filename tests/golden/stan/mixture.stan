// A mixture of two normal distributions: twin of tests/exactness/cookbook/mixture.rs.
data {
  int<lower=0> rows;
  vector[rows] y;
}
parameters {
  real logit_low;
  ordered[2] mu;
  vector<lower=0>[2] sd;
}
model {
  logit_low ~ normal(0, 1.5);
  mu ~ normal(0, 3);
  sd ~ normal(0, 2);
  for (i in 1 : rows) {
    target += log_mix(inv_logit(logit_low), normal_lpdf(y[i] | mu[1], sd[1]), normal_lpdf(y[i] | mu[2], sd[2]));
  }
}
generated quantities {
  array[rows] real y_rep;
  vector[rows] log_lik;
  for (i in 1 : rows) {
    int k = bernoulli_logit_rng(logit_low) ? 1 : 2;
    y_rep[i] = normal_rng(mu[k], sd[k]);
    log_lik[i] = log_mix(inv_logit(logit_low), normal_lpdf(y[i] | mu[1], sd[1]), normal_lpdf(y[i] | mu[2], sd[2]));
  }
}
