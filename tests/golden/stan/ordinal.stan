// Grades in order: twin of tests/exactness/cookbook/ordinal.rs.
data {
  int<lower=0> patients;
  matrix[patients, 2] x;
  array[patients] int<lower=1, upper=4> grade;
}
parameters {
  vector[2] beta;
  ordered[3] cut;
}
transformed parameters {
  vector[patients] eta = x * beta;
}
model {
  beta ~ normal(0, 2.5);
  cut ~ normal(0, 3);
  grade ~ ordered_logistic(eta, cut);
}
generated quantities {
  array[patients] int grade_rep;
  vector[patients] log_lik;
  for (i in 1 : patients) {
    grade_rep[i] = ordered_logistic_rng(eta[i], cut);
    log_lik[i] = ordered_logistic_lpmf(grade[i] | eta[i], cut);
  }
}
