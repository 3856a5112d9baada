# Estimates of mixed models by lme4, glm and survreg, for tests/formula/packages.rs:
#   Rscript formula_fits.R FOLDER > formula_fits.json
# FOLDER has bacteria.csv, cbpp.csv, epil.csv, radon.csv, respiratory.csv, toenail.csv as PARTITA_DATA/mixed_models.
# R 4.2.2, lme4 1.1-31, MASS 7.3-58, jsonlite 1.8. nAGQ = 25 where one effect varies.
suppressMessages({library(lme4); library(MASS); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
read <- function(name) read.csv(file.path(folder, paste0(name, ".csv")), stringsAsFactors = TRUE)
row <- function(names, estimates, errors) list(names = names, estimates = unname(estimates), errors = unname(errors))
coefficients <- function(fit) { s <- summary(fit)$coefficients; row(rownames(s), s[, 1], s[, 2]) }
deviation <- function(fit) as.data.frame(VarCorr(fit))
all <- list()
add <- function(file, formula, family, fit, extra = list()) {
  all[[length(all) + 1]] <<- c(list(file = file, formula = formula, family = family, fixed = coefficients(fit)), extra)
}
sd_of <- function(fit) { v <- deviation(fit); v <- v[is.na(v$var2) & v$grp != "Residual", ]; list(sds = as.list(setNames(v$sdcor, paste0("sd(", v$var1, " | ", sub("\\.[0-9]+$", "", v$grp), ")")))) }
glmm <- function(file, formula, family, r = formula, rfamily = family) {
  data <- read(file)
  fit <- glmer(as.formula(r), data, rfamily, nAGQ = 25, control = glmerControl(optimizer = "bobyqa"))
  add(file, formula, family, fit, sd_of(fit))
}
glmm("bacteria", "y ~ trt + week + (1 | ID)", "bernoulli", rfamily = "binomial")
glmm("cbpp", "incidence | trials(size) ~ factor(period) + (1 | herd)", "binomial",
     "cbind(incidence, size - incidence) ~ factor(period) + (1 | herd)")
glmm("epil", "y ~ lbase * trt + lage + V4 + (1 | subject)", "poisson")
glmm("toenail", "outcome ~ treatment * time + (1 | patientID)", "bernoulli", rfamily = "binomial")
radon <- read("radon")
lmm <- function(formula) { fit <- lmer(as.formula(formula), radon, REML = FALSE); add("radon", formula, "gaussian", fit, sd_of(fit)) }
lmm("log.radon ~ basement + uranium + (1 | county)")
lmm("log.radon ~ basement * uranium + (1 + basement || county)")
plain <- function(file, formula, family, fit) add(file, formula, family, fit)
plain("radon", "log.radon ~ poly(uranium, 2) + basement", "gaussian", lm(log.radon ~ poly(uranium, 2) + basement, radon))
plain("epil", "y ~ log(base) + trt + offset(log(age))", "poisson", glm(y ~ log(base) + trt + offset(log(age)), poisson, read("epil")))
plain("epil", "y ~ log(base) + trt + age", "negbinomial", glm.nb(y ~ log(base) + trt + age, read("epil")))
plain("epil", "I(base + 1) ~ scale(age) + trt", "gamma", glm(I(base + 1) ~ scale(age) + trt, Gamma("log"), read("epil")))
plain("respiratory", "outcome ~ factor(center) * treat + sex + age + baseline", "bernoulli",
      glm(outcome ~ factor(center) * treat + sex + age + baseline, binomial, read("respiratory")))
cat(toJSON(all, digits = 10, auto_unbox = TRUE, pretty = 1), "\n")
