#pragma once

#include <string>

#include "actors/setup/job_config.hpp"

namespace millrace::configs {

/// One run, wholly described. configs/load.hpp makes it; nothing else reads a file of keys.
struct RunConfig : actors::JobConfig {
  std::string model_preset;  // model.preset: a file of configs/models, or a path; empty: none
  std::string fault;         // debug.fault: a fault to inject, for tests; empty: none
};

}  // namespace millrace::configs
