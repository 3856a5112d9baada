// Visits of patients in clinics in hospitals: twin of tests/exactness/cookbook/levels.rs.
data {
  int<lower=0> hospitals;
  int<lower=0> clinics;
  int<lower=0> patients;
  int<lower=0> visits;
  array[clinics] int<lower=1, upper=hospitals> hospital_of_clinic;
  array[patients] int<lower=1, upper=clinics> clinic_of_patient;
  array[visits] int<lower=1, upper=patients> patient_of_visit;
  vector[visits] y;
}
parameters {
  real level;
  real<lower=0> sd_hospital;
  real<lower=0> sd_clinic;
  real<lower=0> sd_patient;
  real<lower=0> sd_visit;
  vector[hospitals] hospital;
  vector[clinics] clinic;
  vector[patients] patient;
}
model {
  level ~ normal(0, 5);
  sd_hospital ~ normal(0, 2);
  sd_clinic ~ normal(0, 2);
  sd_patient ~ normal(0, 2);
  sd_visit ~ normal(0, 2);
  hospital ~ normal(level, sd_hospital);
  clinic ~ normal(hospital[hospital_of_clinic], sd_clinic);
  patient ~ normal(clinic[clinic_of_patient], sd_patient);
  y ~ normal(patient[patient_of_visit], sd_visit);
}
generated quantities {
  array[visits] real y_rep = normal_rng(patient[patient_of_visit], sd_visit);
  vector[visits] log_lik;
  for (i in 1 : visits) {
    log_lik[i] = normal_lpdf(y[i] | patient[patient_of_visit[i]], sd_visit);
  }
}
