# Penicillin of lme4, where six samples cross twenty-four plates, and the estimates of lmer, for tests/formula/crossed.rs:
#   Rscript crossed_groups.R > crossed_groups.json
# R 4.2.2, lme4 1.1-31, jsonlite 1.8.
suppressMessages({library(lme4); library(jsonlite)})
fit <- lmer(diameter ~ 1 + (1 | plate) + (1 | sample), Penicillin, REML = FALSE)
deviations <- as.data.frame(VarCorr(fit))
samples <- ranef(fit, condVar = TRUE)$sample
out <- list(
  diameter = Penicillin$diameter, plate = as.character(Penicillin$plate), sample = as.character(Penicillin$sample),
  sds = as.list(setNames(deviations$sdcor, deviations$grp)), intercept = unname(fixef(fit)),
  names = rownames(samples), samples = unname(samples[, 1]))
cat(toJSON(out, digits = 10, auto_unbox = TRUE), "\n")
