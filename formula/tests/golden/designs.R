# Writes children.csv and designs.json: what R makes of formulas. Run in this folder: `Rscript designs.R`.
# Debian 12: `apt-get install r-base-core r-cran-lme4 r-cran-jsonlite`, that is R 4.2.2, lme4 1.1-31, jsonlite 1.8.4.
Sys.setlocale("LC_COLLATE", "C")
library(splines)
suppressMessages(library(lme4))
library(jsonlite)

set.seed(24)
n <- 30
children <- data.frame(
  y = round(rnorm(n, 10, 3), 3),
  x = round(rnorm(n, 2, 1.5), 2),
  z = round(runif(n, 0.1, 9), 2),
  age = sample(7:11, n, TRUE),
  e = round(rexp(n) + 0.2, 3),
  n = sample(5:20, n, TRUE),
  w = round(runif(n, 0.5, 2), 2),
  time = round(rexp(n, 0.1) + 0.1, 2),
  status = sample(0:1, n, TRUE),
  smoke = sample(0:1, n, TRUE),
  f = sample(c("a", "b", "c"), n, TRUE),
  g = sample(c("low", "high"), n, TRUE),
  h = sample(c("u", "v", "w", "x"), n, TRUE),
  flag = sample(c(TRUE, FALSE), n, TRUE),
  city = sample(c("Z\u00fcrich", "Bern", "New York"), n, TRUE),
  child = sprintf("k%02d", rep(1:10, each = 3)),
  class = sprintf("c%d", rep(c(1, 2, 1, 2, 3), each = 6)),
  school = sprintf("s%d", rep(c(1, 1, 2, 2, 2), each = 6)),
  check.names = FALSE
)
children[["my var"]] <- round(rnorm(n), 2)
children[["my group"]] <- sample(c("p q", "r"), n, TRUE)
write.csv(children, "children.csv", row.names = FALSE, quote = FALSE, fileEncoding = "UTF-8")
children <- read.csv("children.csv", stringsAsFactors = TRUE, check.names = FALSE, fileEncoding = "UTF-8")

fixed <- c(
  "y ~ 1", "y ~ 0", "y ~ x", "y ~ x - 1", "y ~ 0 + x", "y ~ -1 + f", "y ~ f", "y ~ 0 + f + g", "y ~ 0 + g + f",
  "y ~ x + f", "y ~ 0 + x + f", "y ~ x * f", "y ~ x : f", "y ~ x + x:f", "y ~ f + x:f", "y ~ f:x + f", "y ~ f * g",
  "y ~ f:g", "y ~ f + f:g", "y ~ g + f:g", "y ~ 0 + f:g", "y ~ 0 + f * g", "y ~ f:g - 1", "y ~ f * g * x",
  "y ~ f * g - f", "y ~ f * g - g", "y ~ f * g * h - f:g:h", "y ~ (f + g + x)^2", "y ~ (x + z + age)^3",
  "y ~ (f + g)^2 - f:g", "y ~ f / g", "y ~ f / x", "y ~ f / g / x", "y ~ f %in% g", "y ~ g + f %in% g",
  "y ~ f / (g + x)", "y ~ (f + g) / x", "y ~ (x + f):g", "y ~ f:x + g:x", "y ~ f:g + f:h", "y ~ x + z + x",
  "y ~ z + x + f:x:g + g", "y ~ log(z) + exp(x) + sqrt(z)", "y ~ log(z + 1) * g", "y ~ I(x^2) + I((x - 1)*2) + I(x/z)",
  "y ~ I(-x) + I(2 ^ x)", "y ~ I(2^z^0.5) + I(10 - x - 1) + I(8/z/2) + I(-z^2) + I(2 - -x) + I(2*(x + 1)^2)", "y ~ log2(z) + log10(z) + log1p(z) + abs(x)", "y ~ log(z, base = 2)", "y ~ log(z, 3)",
  "y ~ poly(x, 2)", "y ~ poly(age, 3)", "y ~ poly(z, 4) + f", "y ~ poly(x, 2):g", "y ~ poly(x, 3, raw = TRUE)",
  "y ~ poly(log(z), degree = 2)", "y ~ poly(I(age + 2000), 4)", "y ~ poly(I(exp(x)), 3)", "y ~ poly(x, 1) + bs(z, degree = 1)", "y ~ scale(x)", "y ~ scale(x) * scale(age)", "y ~ scale(z, center = FALSE)",
  "y ~ scale(z, scale = FALSE)", "y ~ I(scale(x)^2)", "y ~ scale(log(z)):f", "y ~ bs(x)", "y ~ bs(x, df = 5)",
  "y ~ bs(z, knots = c(2, 5))", "y ~ bs(z, knots = 4, degree = 2)", "y ~ bs(z, df = 6, intercept = TRUE) - 1",
  "y ~ bs(z, knots = c(3, 6), Boundary.knots = c(0, 10))", "y ~ bs(z, df = 4, degree = 1):g",
  "y ~ factor(age)", "y ~ factor(age) * x", "y ~ factor(age, levels = c(9, 7, 8, 10, 11))", "y ~ smoke * age",
  "y ~ factor(smoke)", "y ~ flag", "y ~ 0 + flag", "y ~ flag * f", "y ~ x:flag", "y ~ `my var`", "y ~ `my var` * f",
  "y ~ `my group`", "y ~ `my var`:`my group`", "y ~ city", "y ~ x + offset(log(e))", "y ~ offset(e) + offset(x) + f",
  "y ~ offset(log(e)) - 1 + f", "y ~ sin(x) + cos(x)", "y ~ f - 1 + 1", "y ~ x + 0 + 1", "y ~ (f - 1):x",
  "log(z) ~ x", "y ~ f*x - f:x", "y ~ (f*x + g)^2 - g:x", "y ~ I(x * 1e5) + I(x * 0.0001)",
  "y ~ +x - f + g", "y ~ I(x > 2)", "y ~ 0 + I(age >= 9) + f", "y ~ I(f == 'a') * x", "y ~ I(x < 1 + z/2):g + I(h != 'u')",
  "y ~ I((x <= 2)*z) + I(age == 9)", "y ~ I(2^(x > 2))", "I(z > 4) ~ x", "y ~ sin(2 * pi * age / 12) + cos(pi*x)",
  "y ~ I(flag == TRUE) * x", "y ~ I(flag != FALSE) + I(z * TRUE)"
)
sums <- c("y ~ f", "y ~ f * g", "y ~ 0 + f + h", "y ~ x:f", "y ~ f:h", "y ~ I(x > 2) + f", "y ~ flag + f %in% g")
random <- c(
  "y ~ x + (1 | child)", "y ~ 1 + (1 + x | child)", "y ~ x + (x | child)", "y ~ x + (0 + x | child)",
  "y ~ x + (x || child)", "y ~ x + (1 | class/child)", "y ~ (1 | school/class/child) + x", "y ~ x + (1 | f:g)",
  "y ~ x + (1 | child) + (1 | f)", "y ~ f * x + (f | child)", "y ~ f + (0 + f | child)", "y ~ f + (f * x | child)",
  "y ~ x + (scale(x) | child)", "y ~ (1 + x | school) + (1 | school:class)", "y ~ age + (poly(age, 2) | class)",
  "y ~ (1 | `my group`) + x", "y ~ log(z) + (1 + log(z) + g | h)", "y ~ (1 | age) + x"
)

matrix_of <- function(matrix) {
  list(names = if (is.null(colnames(matrix))) list() else as.list(colnames(matrix)), values = as.numeric(t(matrix)))
}
fixed_of <- function(text, contrast) {
  formula <- nobars(as.formula(text))
  frame <- model.frame(formula, children)
  terms <- attr(frame, "terms")
  offset <- model.offset(frame)
  list(
    formula = text, contrast = contrast, labels = as.list(attr(terms, "term.labels")),
    intercept = attr(terms, "intercept") == 1, design = matrix_of(model.matrix(terms, frame)),
    outcome = as.numeric(model.response(frame)), offset = if (is.null(offset)) list() else as.numeric(offset)
  )
}
random_of <- function(text) {
  ignore <- lmerControl(
    check.nobs.vs.rankZ = "ignore", check.nobs.vs.nlev = "ignore", check.nobs.vs.nRE = "ignore",
    check.nlev.gtreq.5 = "ignore", check.nlev.gtr.1 = "ignore", check.rankX = "ignore"
  )
  made <- lFormula(as.formula(text), children, control = ignore)$reTrms
  groups <- lapply(seq_along(made$Ztlist), function(at) {
    factor <- made$flist[[attr(made$flist, "assign")[at]]]
    list(
      grouping = names(made$cnms)[at], names = as.list(made$cnms[[at]]), levels = as.list(levels(factor)),
      group = as.integer(factor) - 1L, columns = as.numeric(as.matrix(made$Ztlist[[at]]))
    )
  })
  list(formula = text, terms = groups)
}
options(contrasts = c("contr.treatment", "contr.poly"))
designs <- lapply(c(fixed, random), fixed_of, contrast = "treatment")
options(contrasts = c("contr.sum", "contr.poly"))
designs <- c(designs, lapply(sums, fixed_of, contrast = "sum"))
options(contrasts = c("contr.treatment", "contr.poly"))
versions <- list(R = as.character(getRversion()), lme4 = as.character(packageVersion("lme4")))
out <- list(versions = versions, designs = designs, random = lapply(random, random_of))
write(toJSON(out, auto_unbox = TRUE, digits = NA), "designs.json")
