// Growth by a differential equation: twin of tests/ode/growth.rs.
functions {
  vector logistic(real time, vector x, real rate, real capacity) {
    return rate * x .* (1 - x / capacity);
  }
}
data {
  int<lower=0> rows;
  array[rows] real<lower=0> times;
  vector<lower=0>[rows] y;
}
parameters {
  real<lower=0> rate;
  real<lower=0> capacity;
  real<lower=0> start;
  real<lower=0> sigma;
}
transformed parameters {
  array[rows] vector[1] x = ode_rk45(logistic, rep_vector(start, 1), 0, times, rate, capacity);
  vector[rows] log_x = log(to_vector(x[ : , 1]));
}
model {
  rate ~ lognormal(0, 0.5);
  capacity ~ lognormal(2, 0.5);
  start ~ lognormal(0, 0.5);
  sigma ~ normal(0, 0.5);
  y ~ lognormal(log_x, sigma);
}
generated quantities {
  array[rows] real y_rep = lognormal_rng(log_x, sigma);
  vector[rows] log_lik;
  for (i in 1 : rows) {
    log_lik[i] = lognormal_lpdf(y[i] | log_x[i], sigma);
  }
}
