# Estimates of regressions by packages of R, or by maximum likelihood, for tests/formula/families.rs; and the data, from the
# packages datasets, MASS, survival, pscl and ordinal:
#   Rscript family_fits.R family_data > family_fits.json
# R 4.2.2, lme4 1.1-31, ordinal 2022.11-16, MASS 7.3-58, nnet 7.3-18, pscl 1.5.5, survival 3.5-3, jsonlite 1.8.
suppressMessages({library(lme4); library(ordinal); library(MASS); library(nnet); library(pscl); library(survival); library(splines); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
# Each file has the number of the row, by which rows are dealt to silos.
keep <- function(name, data) {
  path <- file.path(folder, paste0(name, ".csv"))
  write.csv(cbind(data, row = seq_len(nrow(data))), path, row.names = FALSE, quote = FALSE)
  read.csv(path, stringsAsFactors = TRUE)
}
cases <- list()
# `deal` is the column by which rows are dealt to silos, `sds` the standard deviations of groups, which have no errors.
add <- function(file, formula, family, estimates, errors, parameters = character(), deal = "row", sds = NULL) {
  own <- list(file = file, formula = formula, family = family, parameters = as.list(parameters), deal = deal,
              names = names(estimates), estimates = unname(estimates), errors = unname(errors))
  cases[[length(cases) + 1]] <<- c(own, if (!is.null(sds)) list(sds = sds))
}
of <- function(file, formula, family, fit, parameters = character()) {
  add(file, formula, family, coef(fit), sqrt(diag(vcov(fit)))[seq_along(coef(fit))], parameters)
}
# Maximum likelihood of the sum of log densities, from a start.
most <- function(log_density, start) {
  found <- optim(start, function(p) -sum(log_density(p)), method = "BFGS", hessian = TRUE, control = list(maxit = 5000, reltol = 1e-14))
  list(estimates = found$par, errors = sqrt(diag(solve(found$hessian))))
}

homes <- keep("housing", data.frame(sat = as.integer(housing$Sat), infl = housing$Infl, type = housing$Type, cont = housing$Cont, freq = housing$Freq))
for (link in c("logistic", "probit")) {
  fit <- polr(factor(sat) ~ infl + type + cont, homes, weights = freq, Hess = TRUE, method = link)
  s <- summary(fit)$coefficients
  names <- sub("^1\\|2$", "threshold[0]", sub("^2\\|3$", "threshold[1]", rownames(s)))
  add("housing", "sat | weights(freq) ~ infl + type + cont", c(logistic = "cumulative", probit = "cumulative_probit")[[link]],
      setNames(s[, 1], names), s[, 2])
}
fit <- multinom(factor(sat) ~ infl + cont, homes, weights = freq, trace = FALSE, reltol = 1e-12)
s <- summary(fit)
named <- function(m) setNames(as.vector(t(m)), paste0("mu", rep(rownames(m), each = ncol(m)), "_", rep(colnames(m), nrow(m))))
add("housing", "sat | weights(freq) ~ infl + cont", "categorical", named(s$coefficients), named(s$standard.errors))

data("bioChemists", package = "pscl")
papers <- keep("bioChemists", bioChemists)
formula <- art ~ fem + mar + kid5 + phd + ment
two <- function(fit, family, parameters, zero, sign = 1) {
  estimates <- coef(fit); errors <- sqrt(diag(vcov(fit)))[names(estimates)]
  counted <- grep("^count_", names(estimates)); zeros <- grep("^zero_", names(estimates))
  names <- sub("^count_", "", sub("^zero_", paste0(zero, "_"), names(estimates)))
  estimates[zeros] <- sign * estimates[zeros]
  add("bioChemists", "art ~ fem + mar + kid5 + phd + ment", family, setNames(estimates, names), errors, parameters)
}
two(zeroinfl(art ~ fem + mar + kid5 + phd + ment | ment, papers), "zero_inflated_poisson", "zi ~ ment", "zi")
# Of the data of these packages none has a likelihood of this family that is near normal: simulated ones.
set.seed(4)
x <- round(rnorm(500), 3)
counts <- keep("simulated", data.frame(y = rbinom(500, 1, 0.7) * rnbinom(500, size = 3, mu = exp(1.2 + 0.4 * x)), x = x))
fit <- zeroinfl(y ~ x | 1, counts, dist = "negbin")
zi <- plogis(coef(fit)[3])
add("simulated", "y ~ x", "zero_inflated_negbinomial", c("(Intercept)" = unname(coef(fit)[1]), x = unname(coef(fit)[2]), zi = unname(zi), shape = fit$theta),
    c(sqrt(diag(vcov(fit)))[1:2], sqrt(vcov(fit)[3, 3]) * zi * (1 - zi), fit$theta * fit$SE.logtheta))
two(hurdle(art ~ fem + mar + kid5 + phd + ment | fem + ment, papers), "hurdle_poisson", "hu ~ fem + ment", "hu", -1)
fit <- hurdle(art ~ fem + mar + kid5 + phd + ment | 1, papers, dist = "negbin")
estimates <- coef(fit)[1:6]
add("bioChemists", "art ~ fem + mar + kid5 + phd + ment", "hurdle_negbinomial",
    setNames(c(estimates, mean(papers$art == 0)), c(sub("count_", "", names(estimates)), "hu")),
    c(sqrt(diag(vcov(fit)))[1:6], sqrt(mean(papers$art == 0) * mean(papers$art > 0) / nrow(papers))))

days <- keep("quine", quine)
away <- days[days$Days > 0, ]
none <- list(hu = mean(days$Days == 0)); none_error <- sqrt(none$hu * (1 - none$hu) / nrow(days))
g <- glm(Days ~ Sex + Lrn, Gamma("log"), away)
shape <- most(function(p) dgamma(away$Days, exp(p[4]), rate = exp(p[4] - as.vector(model.matrix(g) %*% p[1:3])), log = TRUE), c(coef(g), 0))
add("quine", "Days ~ Sex + Lrn", "hurdle_gamma", c(setNames(shape$estimates[1:3], names(coef(g))), unlist(none)), c(shape$errors[1:3], none_error))
l <- lm(log(Days) ~ Sex + Lrn, away)
add("quine", "Days ~ Sex + Lrn", "hurdle_lognormal", c(coef(l), unlist(none)), c(sqrt(diag(vcov(l))), none_error))
m <- model.matrix(~ Sex + Lrn, days); z <- model.matrix(~ Sex, days)
nb <- most(function(p) dnbinom(days$Days, size = exp(as.vector(z %*% p[4:5])), mu = exp(as.vector(m %*% p[1:3])), log = TRUE), c(2.8, 0, 0, 0.2, 0))
add("quine", "Days ~ Sex + Lrn", "negbinomial", setNames(nb$estimates, c(colnames(m), "shape_(Intercept)", "shape_SexM")), nb$errors, "shape ~ Sex")

tastes <- keep("wine", data.frame(rating = as.integer(wine$rating), temp = wine$temp, contact = wine$contact, judge = wine$judge))
for (link in c("logit", "probit")) {
  fit <- clmm(factor(rating) ~ temp + contact + (1 | judge), data = transform(tastes, judge = factor(judge)), link = link, nAGQ = 10)
  s <- summary(fit)$coefficients
  names <- rownames(s)
  for (k in 1:4) names <- sub(paste0("^", k, "\\|.*$"), paste0("threshold[", k - 1, "]"), names)
  add("wine", "rating ~ temp + contact + (1 | judge)", c(logit = "cumulative", probit = "cumulative_probit")[[link]], setNames(s[, 1], names), s[, 2], deal = "judge",
      sds = list("sd((Intercept) | judge)" = attr(VarCorr(fit)$judge, "stddev")[[1]]))
}
fit <- glmer(y ~ trt + week + (1 | ID), keep("bacteria", bacteria), binomial("probit"), nAGQ = 25, control = glmerControl(optimizer = "bobyqa"))
s <- summary(fit)$coefficients
add("bacteria", "y ~ trt + week + (1 | ID)", "bernoulli(probit)", setNames(s[, 1], rownames(s)), s[, 2], deal = "ID",
    sds = list("sd((Intercept) | ID)" = attr(VarCorr(fit)$ID, "stddev")[[1]]))

# As `quine`, but of so many days of a term: zeros of pupils who are never away, simulated.
set.seed(5)
term <- data.frame(n = 5 + rpois(300, 8), x = round(rnorm(300), 3))
term$y <- rbinom(300, 1, 0.75) * rbinom(300, term$n, plogis(-0.5 + 0.6 * term$x))
term <- keep("terms", term)
m <- model.matrix(~ x, term)
zib <- most(function(p) { own <- dbinom(term$y, term$n, plogis(as.vector(m %*% p[1:2])), log = TRUE)
  ifelse(term$y == 0, log(plogis(p[3]) + plogis(-p[3]) * exp(own)), plogis(-p[3], log.p = TRUE) + own) }, c(0, 0, -1))
zi <- plogis(zib$estimates[3])
add("terms", "y | trials(n) ~ x", "zero_inflated_binomial", setNames(c(zib$estimates[1:2], zi), c(colnames(m), "zi")), c(zib$errors[1:2], zib$errors[3] * zi * (1 - zi)))
shares <- keep("shares", data.frame(y = round(pmin(pmax(rbeta(200, 4 * pnorm(0.3 + 0.5 * term$x[1:200]), 4 * pnorm(-0.3 - 0.5 * term$x[1:200])), 1e-4), 1 - 1e-4), 5), x = term$x[1:200]))
m <- model.matrix(~ x, shares)
b <- most(function(p) { mu <- pnorm(as.vector(m %*% p[1:2])); dbeta(shares$y, mu * exp(p[3]), (1 - mu) * exp(p[3]), log = TRUE) }, c(0, 0, 1))
add("shares", "y ~ x", "beta(probit)", setNames(c(b$estimates[1:2], exp(b$estimates[3])), c(colnames(m), "phi")), c(b$errors[1:2], b$errors[3] * exp(b$estimates[3])))
b <- most(function(p) { mu <- plogis(as.vector(m %*% p[1:2])); dbeta(shares$y, mu * exp(p[3]), (1 - mu) * exp(p[3]), log = TRUE) }, c(0, 0, 1))
add("shares", "y ~ x", "beta", setNames(c(b$estimates[1:2], exp(b$estimates[3])), c(colnames(m), "phi")), c(b$errors[1:2], b$errors[3] * exp(b$estimates[3])))

flowers <- keep("iris", iris[, c("Sepal.Length", "Sepal.Width", "Species")])
m <- model.matrix(~ Species, flowers)
n <- most(function(p) dnorm(flowers$Sepal.Length, as.vector(m %*% p[1:3]), exp(as.vector(m %*% p[4:6])), log = TRUE), c(5, 1, 1.5, -1, 0, 0))
add("iris", "Sepal.Length ~ Species", "gaussian", setNames(n$estimates, c(colnames(m), paste0("sigma_", colnames(m)))), n$errors, "sigma ~ Species")

girls <- keep("menarche", menarche)
for (link in c("probit", "cloglog")) {
  of("menarche", "Menarche | trials(Total) ~ Age", paste0("binomial(", link, ")"), glm(cbind(Menarche, Total - Menarche) ~ Age, binomial(link), girls))
}
ill <- keep("bacteria", bacteria)
for (link in c("probit", "cloglog")) of("bacteria", "y ~ trt + week", paste0("bernoulli(", link, ")"), glm(y ~ trt + week, binomial(link), ill))
yarn <- keep("warpbreaks", warpbreaks)
for (link in c("sqrt", "identity")) of("warpbreaks", "breaks ~ wool + tension", paste0("poisson(", link, ")"), glm(breaks ~ wool + tension, poisson(link), yarn))
own <- function(formula, link) {
  fit <- glm(formula, Gamma(link), yarn)
  fit$dispersion <- 1 / gamma.shape(fit)$alpha
  s <- summary(fit, dispersion = fit$dispersion)$coefficients
  add("warpbreaks", "breaks ~ wool + tension", paste0("gamma(", link, ")"), setNames(s[, 1], rownames(s)), s[, 2])
}
for (link in c("inverse", "identity")) own(breaks ~ wool + tension, link)
of("warpbreaks", "breaks ~ wool + tension", "lognormal", lm(log(breaks) ~ wool + tension, yarn))
stops <- keep("cars", cars)
of("cars", "dist ~ speed", "gaussian(log)", glm(dist ~ speed, gaussian("log"), stops, start = c(2, 0.1)))
# Knots at quantiles, which silos find by counts.
of("cars", "dist ~ bs(speed, df = 4)", "gaussian", lm(dist ~ bs(speed, df = 4), stops))

lungs <- keep("veteran", veteran)
cuts <- c(30, 90, 180)
parts <- survSplit(Surv(time, status) ~ ., lungs, cut = cuts, episode = "piece", start = "from")
fit <- glm(status ~ 0 + factor(piece) + karno + celltype + offset(log(time - from)), poisson, parts)
estimates <- coef(fit)
names(estimates) <- sub("factor\\(piece\\)1", "log_hazard[0]", names(estimates))
for (k in 2:4) names(estimates) <- sub(paste0("factor\\(piece\\)", k), paste0("log_hazard[", k - 1, "]"), names(estimates))
add("veteran", "surv(time, status, cuts = c(30, 90, 180)) ~ karno + celltype", "piecewise_exponential", estimates, sqrt(diag(vcov(fit))))
# Without cuts, beside Cox's partial likelihood.
of("veteran", "surv(time, status) ~ karno + celltype", "piecewise_exponential", coxph(Surv(time, status) ~ karno + celltype, lungs))
fit <- survreg(Surv(time, status) ~ karno + celltype, lungs, dist = "weibull")
errors <- sqrt(diag(vcov(fit)))
add("veteran", "surv(time, status) ~ karno + celltype", "weibull", c(coef(fit), shape = 1 / fit$scale),
    c(errors[seq_along(coef(fit))], unname(errors["Log(scale)"]) / fit$scale))

# Simulated: the tails of data of these packages are those of a normal distribution, or of no finite degrees of freedom at all.
set.seed(6)
x <- round(rnorm(400), 3)
tails <- keep("tails", data.frame(y = round(1 + 0.5 * x + 0.7 * rt(400, 4), 5), x = x))
m <- model.matrix(~ x, tails)
t <- most(function(p) dt((tails$y - as.vector(m %*% p[1:2])) / exp(p[3]), exp(p[4]), log = TRUE) - p[3], c(1, 0.5, -0.3, 1.4))
add("tails", "y ~ x", "student", setNames(c(t$estimates[1:2], exp(t$estimates[3])), c(colnames(m), "sigma")), c(t$errors[1:2], t$errors[3] * exp(t$estimates[3])))

# Also simulated: of `cbpp` the precision is hardly known.
set.seed(7)
x <- round(rnorm(250), 3)
mu <- plogis(-0.4 + 0.6 * x)
varied <- keep("varied", data.frame(y = rbinom(250, 12, rbeta(250, 5 * mu, 5 * (1 - mu))), n = 12, x = x))
m <- model.matrix(~ x, varied)
bb <- most(function(p) { mu <- plogis(as.vector(m %*% p[1:2])); a <- mu * exp(p[3]); b <- (1 - mu) * exp(p[3])
  with(varied, lchoose(n, y) + lbeta(y + a, n - y + b) - lbeta(a, b)) }, c(0, 0, 1))
add("varied", "y | trials(n) ~ x", "beta_binomial", setNames(c(bb$estimates[1:2], exp(bb$estimates[3])), c(colnames(m), "phi")),
    c(bb$errors[1:2], bb$errors[3] * exp(bb$estimates[3])))

lines <- sapply(cases, function(case) toJSON(case, digits = 10, auto_unbox = TRUE))
cat("[", paste(lines, collapse = ",\n"), "]\n", sep = "")
