#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/rank/batch_provider.hpp"
#include "actors/setup/pipeline_plan.hpp"
#include "actors/setup/session.hpp"
#include "cluster/cluster_config.hpp"
#include "layers/formats/config_file.hpp"

namespace millrace::actors {

/// The arguments of `millrace parity DIR`.
struct ParitySettings {
  std::string folder;          // has config.json, model.safetensors, golden.safetensors, and optionally tolerance.json and bf16.json
  std::string dtype = "fp32";  // fp32 | bf16
  std::string device = "cpu";  // cpu | cuda
  int ranks = 1, chunks = 1;
  std::string schedule = "1f1b";
  std::string layout;
  std::string rematerialize = "none";
  double tolerance = 1;  // scales all tolerances
  int threads = 1;       // fixed, so that every layout computes the same bits
  cluster::ClusterConfig cluster;
};

/// Rows of a microbatch, of `all` rows: 1, or all of them where MaxText's rounding is of the whole batch.
[[nodiscard]] std::size_t parity_rows(const layers::ModelConfig& model, std::size_t all);
/// The plan of a comparison: `train` with the sizes of the rows that are given, `rows` of them a microbatch.
[[nodiscard]] PlanRequest parity_request(const ParitySettings& settings, const layers::ConfigFile& config,
                                         const runtime::TrainConfig& train, const std::vector<GivenRow>& all, std::size_t rows);

/// Runs forward and backward in microbatches of one row (of all rows, where MaxText's rounding is of the whole batch) through the pipeline,
/// and in process 0 compares loss, logits, hidden states and every gradient with golden.safetensors, printing the largest difference of
/// each group and a hash of all of them. A folder of recorded steps is trained instead (recorded_steps.hpp). Collective; the session is
/// connected. Returns whether everything is within the limits of the folder's parity_rule, in process 0 (true elsewhere). Errors:
/// Error(model), Error(config).
[[nodiscard]] bool run_parity(Session& session, const ParitySettings& settings);

}  // namespace millrace::actors
