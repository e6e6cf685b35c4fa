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
  std::int64_t expert = 1;        // ranks that share the experts of a layer: as many copies of the pipeline
  std::int64_t accumulators = 0;  // 0: as many
  std::string schedule = "1f1b";
  std::string layout;
  std::string rematerialize = "none";
  double tolerance = 1;  // scales all tolerances
  int threads = 1;       // fixed, so that every layout computes the same bits
  cluster::ClusterConfig cluster;
};

/// Rows per microbatch for a comparison over `all` rows: 1, or all of them if MaxText rounds a sum over the whole batch once (a
/// tied table's gradient).
[[nodiscard]] std::size_t parity_rows(const layers::ModelConfig& model, std::size_t all);
/// The plan of a comparison: `train` with the length of the rows `all`, which are divided into microbatches of `rows` rows.
[[nodiscard]] PlanRequest parity_request(const ParitySettings& settings, const layers::ConfigFile& config,
                                         const runtime::TrainConfig& train, const std::vector<GivenRow>& all, std::size_t rows);

/// Runs forward and backward through the pipeline in microbatches of parity_rows() rows, and in process 0 compares loss, logits,
/// hidden states and every gradient with golden.safetensors, printing the largest difference of each group and a hash of all of
/// them. If the folder has recorded training steps, trains those steps instead (recorded_steps.hpp). Collective; the session is
/// connected. Returns whether everything is within the limits of the folder's parity_rule, in process 0 (true elsewhere). Errors:
/// Error(model), Error(config).
[[nodiscard]] bool run_parity(Session& session, const ParitySettings& settings);

}  // namespace millrace::actors
