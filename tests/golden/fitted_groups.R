# Fitted values of known groups by lmer, of slopes that hang together with intercepts and of nested groups, for
# tests/formula/answers.rs:
#   Rscript fitted_groups.R > fitted_groups.json
# R 4.2.2, lme4 1.1-31, jsonlite 1.8.
suppressMessages({library(lme4); library(jsonlite)})
case <- function(formula, data, columns) {
  fit <- lmer(as.formula(formula), data, REML = FALSE)
  text <- paste0(capture.output(write.csv(data[columns], row.names = FALSE, quote = FALSE)), "\n", collapse = "")
  list(formula = formula, file = text, fitted = unname(fitted(fit)))
}
all <- list(
  case("Reaction ~ Days + (1 + Days | Subject)", sleepstudy, c("Reaction", "Days", "Subject")),
  case("strength ~ 1 + (1 | batch/cask)", Pastes, c("strength", "batch", "cask")))
cat(toJSON(all, digits = 10, auto_unbox = TRUE), "\n")
