# Estimates of mixed models, splines and sum contrasts by lme4, glmmTMB, splines and glm, for the study `packages`:
#   Rscript package_fits.R FOLDER > package_fits.json
# FOLDER has cbpp.csv, epil.csv, radon.csv, respiratory.csv as PARTITA_DATA/mixed_models; rows of the formulas of
# fitted_groups.json are there. R 4.2.2, lme4 1.1-31, glmmTMB 1.1.5, jsonlite 1.8.
suppressMessages({library(lme4); library(glmmTMB); library(splines); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
read <- function(name) read.csv(file.path(folder, paste0(name, ".csv")), stringsAsFactors = TRUE)
cases <- list()
# `deal` is the column by which rows are dealt to three silos; of an analysis with `over_silos`, which is its formula there, each
# cell of it is a silo. `sds` are standard deviations and correlations of groups, which have no errors.
add <- function(file, formula, family, s, deal, package, sds = NULL, over_silos = NULL) {
  own <- list(file = file, formula = formula, family = family, package = package, deal = deal,
              names = I(rownames(s)), estimates = I(unname(s[, 1])), errors = I(unname(s[, 2])))
  cases[[length(cases) + 1]] <<- c(own, if (!is.null(over_silos)) list(over_silos = over_silos), if (!is.null(sds)) list(sds = sds))
}
# As sd(column | group) and cor(column, column | group), and sigma of a normal outcome.
varied <- function(fit) {
  v <- as.data.frame(VarCorr(fit))
  group <- v$grp
  name <- ifelse(group == "Residual", "sigma",
                 ifelse(is.na(v$var2), paste0("sd(", v$var1, " | ", group, ")"), paste0("cor(", v$var1, ", ", v$var2, " | ", group, ")")))
  as.list(setNames(v$sdcor, name))
}
lmm <- function(file, formula, data, deal) {
  fit <- lmer(as.formula(formula), data, REML = FALSE)
  add(file, formula, "gaussian", summary(fit)$coefficients, deal, "lme4::lmer, ML", varied(fit))
}
lmm("sleepstudy", "Reaction ~ Days + (1 + Days | Subject)", sleepstudy, "Subject")
lmm("pastes", "strength ~ 1 + (1 | batch/cask)", Pastes, "batch")

# A herd for each silo: in one file the effects are of a column, over silos of the silos themselves.
fit <- glmer(cbind(incidence, size - incidence) ~ factor(period) + (1 | herd), read("cbpp"), binomial, nAGQ = 25,
             control = glmerControl(optimizer = "bobyqa"))
add("cbpp", "incidence | trials(size) ~ factor(period) + (1 | herd)", "binomial", summary(fit)$coefficients, "herd",
    "lme4::glmer, nAGQ = 25", varied(fit), "incidence | trials(size) ~ factor(period) + (1 | silo)")

# The range and the knots are in the formula, so that no silo says anything of its rows for them.
formula <- "log.radon ~ bs(uranium, knots = c(-0.2, 0.2), Boundary.knots = c(-0.9, 0.6)) + basement"
add("radon", formula, "gaussian", summary(lm(as.formula(formula), read("radon")))$coefficients, "county", "lm and splines::bs")
asthma <- read("respiratory")
formula <- "outcome ~ C(treat, sum) * C(sex, sum) + age + baseline"
add("respiratory", formula, "bernoulli", summary(glm(as.formula(formula), binomial, asthma))$coefficients, "id", "glm, contr.sum")

seizures <- read("epil")
counts <- function(formula, family, of, zeros) {
  fit <- glmmTMB(as.formula(formula), seizures, of, ziformula = zeros)
  own <- summary(fit)
  s <- own$coefficients$cond[, 1:2]
  if (!is.null(own$coefficients$zi)) {
    # The log odds as a probability.
    odds <- own$coefficients$zi[1, 1:2]
    p <- plogis(odds[[1]])
    s <- rbind(s, zi = c(p, odds[[2]] * p * (1 - p)))
  }
  add("epil", formula, family, s, "subject", "glmmTMB::glmmTMB", list("sd((Intercept) | subject)" = attr(VarCorr(fit)$cond$subject, "stddev")[[1]]))
}
counts("y ~ lbase * trt + lage + V4 + (1 | subject)", "zero_inflated_poisson", poisson, ~1)
counts("y ~ lbase * trt + lage + V4 + (1 | subject)", "negbinomial", nbinom2, ~0)

lines <- sapply(cases, function(case) toJSON(case, digits = 10, auto_unbox = TRUE))
cat("[", paste(lines, collapse = ",\n"), "]\n", sep = "")
