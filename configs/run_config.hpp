#pragma once

#include <string>

#include "actors/setup/job_config.hpp"

namespace millrace::configs {

/// The complete description of a run. Only configs/load.hpp reads it from files.
struct RunConfig : actors::JobConfig {
  std::string model_preset;  // model.preset: a file of configs/models, or a path; empty: none
  std::string fault;         // debug.fault: a fault to inject, for tests; empty: none
};

}  // namespace millrace::configs
