# Log densities of the rows of regressions by R's own functions, for tests/formula/responses.rs:
#   Rscript responses.R > responses.json
# R 4.2.2, jsonlite 1.8. Each case has a formula, a family, the columns of a file, the parameters, and the log density of each row.
library(jsonlite)
x <- c(-1.2, -0.4, 0, 0.7, 1.5, 0.2)
reals <- c(0.5, -1.3, 2.1, 0.04, -0.7, 1.9)
binary <- c(0, 1, 1, 0, 1, 0)
counts <- c(0, 1, 3, 0, 7, 2)
trials <- c(4, 3, 3, 1, 9, 5)
positive <- c(0.5, 1.3, 2.1, 0.04, 0.7, 1.9)
parts <- c(0.5, 0.13, 0.91, 0.04, 0.7, 0.9)
status <- c(1, 0, 1, 1, 0, 1)
zeros <- c(0, 1.3, 2.1, 0, 0.7, 1.9)
levels <- c(2, 1, 3, 1, 4, 2)
weights <- c(1, 0, 2, 0.5, 3, 1)
cases <- list()
add <- function(family, formula, columns, parameters, density, extra = NULL) {
  cases[[length(cases) + 1]] <<- list(family = family, formula = formula, parameter_formulas = as.list(extra), columns = columns,
                                      parameters = parameters, log_density = density)
}
# `mean` of eta = a + b x; the parameters beside a and b are in `own`.
plain <- function(family, y, inverse, density, own = list(), a = 0.3, b = -0.6, left = "y", more = list()) {
  mu <- inverse(a + b * x)
  add(family, paste(left, "~ x"), c(list(y = y, x = x), more), c(list("(Intercept)" = a, x = b), own), density(y, mu))
}
cloglog <- function(eta) 1 - exp(-exp(eta))
inverse <- function(eta) 1 / eta
square <- function(eta) eta^2
dstudent <- function(y, mu, s, nu) dt((y - mu) / s, nu, log = TRUE) - log(s)
dbetabinom <- function(y, n, mu, phi) lchoose(n, y) + lbeta(y + mu * phi, n - y + (1 - mu) * phi) - lbeta(mu * phi, (1 - mu) * phi)
normal <- function(y, mu) dnorm(y, mu, 0.8, log = TRUE)
plain("gaussian", reals, identity, normal, list(sigma = 0.8))
plain("gaussian(log)", reals, exp, normal, list(sigma = 0.8))
plain("gaussian(inverse)", reals, inverse, normal, list(sigma = 0.8), a = 2)
plain("student", reals, identity, function(y, mu) dstudent(y, mu, 0.8, 4.5), list(sigma = 0.8, nu = 4.5))
plain("student(log)", reals, exp, function(y, mu) dstudent(y, mu, 0.8, 4.5), list(sigma = 0.8, nu = 4.5))
plain("student(inverse)", reals, inverse, function(y, mu) dstudent(y, mu, 0.8, 4.5), list(sigma = 0.8, nu = 4.5), a = 2)
bernoulli <- function(y, mu) dbinom(y, 1, mu, log = TRUE)
plain("bernoulli", binary, plogis, bernoulli)
plain("bernoulli(probit)", binary, pnorm, bernoulli)
plain("bernoulli(cloglog)", binary, cloglog, bernoulli)
pmin_trials <- pmin(counts, trials)
binomial <- function(y, mu) dbinom(y, trials, mu, log = TRUE)
of_trials <- function(family, inverse, density, own = list()) {
  plain(family, pmin_trials, inverse, density, own, left = "y | trials(n)", more = list(n = trials))
}
of_trials("binomial", plogis, binomial)
of_trials("binomial(probit)", pnorm, binomial)
of_trials("binomial(cloglog)", cloglog, binomial)
of_trials("beta_binomial", plogis, function(y, mu) dbetabinom(y, trials, mu, 3.2), list(phi = 3.2))
of_trials("beta_binomial(probit)", pnorm, function(y, mu) dbetabinom(y, trials, mu, 3.2), list(phi = 3.2))
of_trials("beta_binomial(cloglog)", cloglog, function(y, mu) dbetabinom(y, trials, mu, 3.2), list(phi = 3.2))
poisson <- function(y, mu) dpois(y, mu, log = TRUE)
plain("poisson", counts, exp, poisson)
plain("poisson(identity)", counts, identity, poisson, a = 2)
plain("poisson(sqrt)", counts, square, poisson, a = 2)
negative <- function(y, mu) dnbinom(y, size = 1.7, mu = mu, log = TRUE)
plain("negbinomial", counts, exp, negative, list(shape = 1.7))
plain("negbinomial(sqrt)", counts, square, negative, list(shape = 1.7), a = 2)
plain("negbinomial(identity)", counts, identity, negative, list(shape = 1.7), a = 2)
gamma_of <- function(y, mu) dgamma(y, 1.7, rate = 1.7 / mu, log = TRUE)
plain("gamma", positive, exp, gamma_of, list(shape = 1.7))
plain("gamma(identity)", positive, identity, gamma_of, list(shape = 1.7), a = 2)
plain("gamma(inverse)", positive, inverse, gamma_of, list(shape = 1.7), a = 2)
plain("lognormal", positive, identity, function(y, mu) dlnorm(y, mu, 0.8, log = TRUE), list(sigma = 0.8))
beta_of <- function(y, mu) dbeta(y, mu * 3.2, (1 - mu) * 3.2, log = TRUE)
plain("beta", parts, plogis, beta_of, list(phi = 3.2))
plain("beta(probit)", parts, pnorm, beta_of, list(phi = 3.2))
plain("beta(cloglog)", parts, cloglog, beta_of, list(phi = 3.2))
survival <- function(y, mu) ifelse(status == 1, dweibull(y, 1.7, mu, log = TRUE), pweibull(y, 1.7, mu, lower.tail = FALSE, log.p = TRUE))
plain("weibull", positive, exp, survival, list(shape = 1.7), left = "surv(y, s)", more = list(s = status))
# The hazard is the sum of its pieces; its integral by R.
hazards <- c(-0.4, 0.1, 0.6); cuts <- c(0.6, 1.4)
log_hazard <- function(t) hazards[1 + (t > cuts[1]) + (t > cuts[2])]
pieces <- function(y, mu) mapply(function(t, m, d) {
  ends <- c(0, cuts[cuts < t], t)
  total <- sum(mapply(function(from, to) integrate(function(u) exp(log_hazard(u)) + 0 * u, from, to, rel.tol = 1e-12)$value, head(ends, -1), tail(ends, -1)))
  d * (log_hazard(t) + log(m)) - m * total
}, y, mu, status)
add("piecewise_exponential", "surv(y, s, cuts = c(0.6, 1.4)) ~ x", list(y = positive, x = x, s = status),
    list(x = -0.6, log_hazard = hazards), pieces(positive, exp(-0.6 * x)))
mix <- function(y, p, log_density, at_zero) ifelse(y == 0, log(p + (1 - p) * exp(at_zero)), log(1 - p) + log_density)
over <- function(y, p, log_density, at_zero) ifelse(y == 0, log(p), log(1 - p) + log_density - log(1 - exp(at_zero)))
plain("zero_inflated_poisson", counts, exp, function(y, mu) mix(y, 0.3, poisson(y, mu), poisson(0, mu)), list(zi = 0.3))
plain("zero_inflated_negbinomial", counts, exp, function(y, mu) mix(y, 0.3, negative(y, mu), negative(0, mu)), list(shape = 1.7, zi = 0.3))
of_trials("zero_inflated_binomial", plogis, function(y, mu) mix(y, 0.3, binomial(y, mu), binomial(0, mu)), list(zi = 0.3))
plain("hurdle_poisson", counts, exp, function(y, mu) over(y, 0.3, poisson(y, mu), poisson(0, mu)), list(hu = 0.3))
plain("hurdle_negbinomial", counts, exp, function(y, mu) over(y, 0.3, negative(y, mu), negative(0, mu)), list(shape = 1.7, hu = 0.3))
plain("hurdle_gamma", zeros, exp, function(y, mu) over(y, 0.3, gamma_of(y, mu), -Inf), list(shape = 1.7, hu = 0.3))
plain("hurdle_lognormal", zeros, identity, function(y, mu) over(y, 0.3, dlnorm(y, mu, 0.8, log = TRUE), -Inf), list(sigma = 0.8, hu = 0.3))
# Of zeros with every other link.
links <- list(identity = identity, sqrt = square)
for (link in names(links)) {
  of <- function(family, density, own) plain(paste0(family, "(", link, ")"), counts, links[[link]], density, own, a = 2)
  of("zero_inflated_poisson", function(y, mu) mix(y, 0.3, poisson(y, mu), poisson(0, mu)), list(zi = 0.3))
  of("zero_inflated_negbinomial", function(y, mu) mix(y, 0.3, negative(y, mu), negative(0, mu)), list(shape = 1.7, zi = 0.3))
  of("hurdle_poisson", function(y, mu) over(y, 0.3, poisson(y, mu), poisson(0, mu)), list(hu = 0.3))
  of("hurdle_negbinomial", function(y, mu) over(y, 0.3, negative(y, mu), negative(0, mu)), list(shape = 1.7, hu = 0.3))
}
links <- list(probit = pnorm, cloglog = cloglog)
for (link in names(links)) {
  of_trials(paste0("zero_inflated_binomial(", link, ")"), links[[link]], function(y, mu) mix(y, 0.3, binomial(y, mu), binomial(0, mu)), list(zi = 0.3))
}
links <- list(identity = identity, inverse = inverse)
for (link in names(links)) {
  plain(paste0("hurdle_gamma(", link, ")"), zeros, links[[link]], function(y, mu) over(y, 0.3, gamma_of(y, mu), -Inf), list(shape = 1.7, hu = 0.3), a = 2)
}
thresholds <- c(-0.9, 0.2, 1.4)
ordered_of <- function(family, cdf) {
  ends <- c(-Inf, thresholds, Inf); eta <- -0.6 * x
  add(family, "y ~ x", list(y = levels, x = x), list(x = -0.6, threshold = thresholds), log(cdf(ends[levels + 1] - eta) - cdf(ends[levels] - eta)))
}
ordered_of("cumulative", plogis)
ordered_of("cumulative_probit", pnorm)
eta <- cbind(0, 0.3 - 0.6 * x, -0.2 + 0.4 * x, 0.1 + 0.9 * x)
add("categorical", "y ~ x", list(y = levels, x = x),
    list("mu2_(Intercept)" = 0.3, mu2_x = -0.6, "mu3_(Intercept)" = -0.2, mu3_x = 0.4, "mu4_(Intercept)" = 0.1, mu4_x = 0.9),
    eta[cbind(1:6, levels)] - log(rowSums(exp(eta))))
# Weights, and parameters with formulas of their own.
plain("poisson", counts, exp, function(y, mu) weights * poisson(y, mu), left = "y | weights(w)", more = list(w = weights))
linear <- function(family, y, parameter, density, own = list(), left = "y", more = list()) {
  add(family, paste(left, "~ x"), c(list(y = y, x = x), more),
      c(list("(Intercept)" = 0.3, x = -0.6), own, setNames(list(-0.2, 0.5), paste0(parameter, c("_(Intercept)", "_x")))),
      density(0.3 - 0.6 * x, -0.2 + 0.5 * x), paste(parameter, "~ x"))
}
linear("gaussian", reals, "sigma", function(eta, own) dnorm(reals, eta, exp(own), log = TRUE))
linear("student", reals, "nu", function(eta, own) dstudent(reals, eta, 0.8, exp(own)), list(sigma = 0.8))
linear("negbinomial", counts, "shape", function(eta, own) dnbinom(counts, size = exp(own), mu = exp(eta), log = TRUE))
linear("beta", parts, "phi", function(eta, own) dbeta(parts, plogis(eta) * exp(own), plogis(-eta) * exp(own), log = TRUE))
linear("gamma", positive, "shape", function(eta, own) dgamma(positive, exp(own), rate = exp(own - eta), log = TRUE))
linear("zero_inflated_poisson", counts, "zi", function(eta, own) mix(counts, plogis(own), poisson(counts, exp(eta)), poisson(0, exp(eta))))
linear("hurdle_lognormal", zeros, "hu", function(eta, own) over(zeros, plogis(own), dlnorm(zeros, eta, 0.8, log = TRUE), -Inf), list(sigma = 0.8))
lines <- sapply(cases, function(case) toJSON(case, digits = 14, auto_unbox = TRUE))
cat("[", paste(lines, collapse = ",\n"), "]\n", sep = "")
