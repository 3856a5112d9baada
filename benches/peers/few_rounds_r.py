"""Times R's lme4 and glmmTMB on the models of `benches/few_rounds.rs`, for `compare --case few_rounds_r`.

    python few_rounds_r.py    prints one JSON object: microseconds from a data frame to estimates

Needs Rscript with lme4 and glmmTMB (Debian: r-base-core, r-cran-lme4, r-cran-glmmtmb). Six cities is fitted by `glmer` with
15 points of adaptive quadrature and, under `laplace`, by `glmmTMB`, which has the Laplace approximation; toenail, where
PARTITA_DATA has it, by `glmer` with 31 points; 100,000 rows by `glmmTMB`. All are point estimates.
"""

import json
import shutil
import subprocess
import sys

PROGRAM = r"""
suppressMessages({library(lme4); library(glmmTMB)})
quiet <- c(237,10,15,4,16,2,7,3,24,3,3,2,6,2,5,11); smokers <- c(118,6,8,2,11,1,6,4,7,3,3,1,4,2,4,7)
rows <- list(); child <- 0
for (smoke in 0:1) { counts <- if (smoke) smokers else quiet
  for (pattern in 0:15) { wheeze <- as.integer(bitwAnd(pattern, c(8L,4L,2L,1L)) > 0)
    for (k in seq_len(counts[pattern + 1])) { child <- child + 1
      rows[[child]] <- data.frame(child = child, smoke = smoke, age = -2:1, wheeze = wheeze) } } }
children <- do.call(rbind, rows)
began <- proc.time()[["elapsed"]]
fit <- glmer(wheeze ~ smoke * age + (1 | child), children, family = binomial, nAGQ = 15)
six <- proc.time()[["elapsed"]] - began
began <- proc.time()[["elapsed"]]
fit <- glmmTMB(wheeze ~ smoke * age + (1 | child), children, family = binomial)
laplace <- proc.time()[["elapsed"]] - began
toenail <- ""
path <- file.path(Sys.getenv("PARTITA_DATA"), "mixed_models", "toenail.csv")
if (file.exists(path)) {
  patients <- read.csv(path, stringsAsFactors = TRUE)
  patients$y <- as.integer(patients$outcome == "moderate or severe")
  began <- proc.time()[["elapsed"]]
  fit <- glmer(y ~ treatment * time + (1 | patientID), patients, family = binomial, nAGQ = 31)
  toenail <- sprintf('"toenail_f64": %.0f, ', 1e6 * (proc.time()[["elapsed"]] - began))
}
set.seed(1); groups <- 1e4; visits <- 10; columns <- 20
x <- matrix(rnorm(groups * visits * (columns - 1)), ncol = columns - 1); colnames(x) <- paste0("x", seq_len(columns - 1))
beta <- 0.3 * sin(1.7 * (0:(columns - 1))); group <- rep(seq_len(groups), each = visits)
eta <- beta[1] + x %*% beta[-1] + rnorm(groups)[group]
many <- data.frame(group = factor(group), y = rbinom(length(eta), 1, plogis(eta)), x)
formula <- as.formula(paste("y ~", paste(colnames(x), collapse = " + "), "+ (1 | group)"))
began <- proc.time()[["elapsed"]]
fit <- glmmTMB(formula, many, family = binomial)
large <- proc.time()[["elapsed"]] - began
cat(sprintf('{"six_cities_f64": %.0f, "laplace": %.0f, %s"rows_100000_f64": %.0f}\n', 1e6 * six, 1e6 * laplace, toenail, 1e6 * large))
"""


def main():
    if shutil.which("Rscript") is None:
        sys.exit("few_rounds_r: Rscript is missing; install r-base-core, r-cran-lme4 and r-cran-glmmtmb")
    out = subprocess.run(["Rscript", "-e", PROGRAM], check=True, capture_output=True, text=True).stdout
    print(json.dumps(json.loads(out.strip().splitlines()[-1])))


if __name__ == "__main__":
    main()
