// A Gaussian process by basis functions: twin of tests/exactness/cookbook/process.rs.
data {
  int<lower=0> rows;
  int<lower=1> size;
  real<lower=0> boundary;
  vector[rows] x;
  vector[rows] y;
}
transformed data {
  vector[size] omega = linspaced_vector(size, 1, size) * pi() / (2 * boundary);
  matrix[rows, size] phi = sin((x + boundary) * omega') / sqrt(boundary);
}
parameters {
  real<lower=0> amplitude;
  real<lower=0> length;
  real<lower=0> sigma;
  vector[size] weight;
}
transformed parameters {
  vector[size] density = square(amplitude) * sqrt(2 * pi()) * length * exp(-0.5 * square(length * omega));
  vector[rows] f = phi * (sqrt(density) .* weight);
}
model {
  amplitude ~ normal(0, 1.5);
  length ~ lognormal(-0.7, 0.5);
  sigma ~ normal(0, 1);
  weight ~ std_normal();
  y ~ normal(f, sigma);
}
generated quantities {
  array[rows] real y_rep = normal_rng(f, sigma);
  vector[rows] log_lik;
  for (i in 1 : rows) {
    log_lik[i] = normal_lpdf(y[i] | f[i], sigma);
  }
}
