#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/thread_team.hpp"
#include "layers/models/model.hpp"
#include "runtime/engine/sequential_trainer.hpp"
#include "runtime/io/safetensors.hpp"
#include "runtime/train_config.hpp"

/// Shared by the tests of models: a model in a sequential loop, batches from token ids, and the golden vectors.
namespace millrace::layers::testing {

struct LoopOptions {
  std::string layout = "";  // empty: one stage
  kernels::DType compute = kernels::DType::f32;
  std::int64_t rows = 1, sequence = 1;
  runtime::LossWeights losses = {};
  std::string rematerialize = "none";
  runtime::BackwardMode mode = runtime::BackwardMode::fused;
  int accumulators = 1, expert_accumulators = 1;
  int leaves = 0;  // 1: the gradients of each microbatch are formed by themselves
  bool staging = false;
  int threads = 1;
  kernels::Implementation implementation = kernels::Implementation::fast;
  runtime::TrainConfig train{.weight_decay = 0};  // the optimizer's scalars and the decay's rule
  kernels::DeviceContext* device = nullptr;       // must outlive the model; null: the CPU
};

/// A model with its memory, team and context.
class Model {
 public:
  Model(const ModelConfig& config, const LoopOptions& options);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const kernels::ExecutionContext& context() const { return context_; }
  [[nodiscard]] runtime::SequentialTrainer& loop() { return loop_; }
  [[nodiscard]] const std::vector<runtime::Stage*>& stages() const { return loop_.rank().stages(); }
  /// The elements of a parameter, for reading and writing.
  [[nodiscard]] std::span<float> master(const std::string& name) const { return loop_.rank().shard_with(name).master(name); }
  /// To be called after parameters were written.
  void refresh_copies() const;
  void load(const std::string& folder);
  void initialise(std::uint64_t seed);
  /// The complete gradient of a tensor after accumulate.
  [[nodiscard]] std::vector<float> gradient(const std::string& name) const;
  [[nodiscard]] std::vector<float> parameter(const std::string& name) const;
  /// Every gradient and every parameter as bits, in model order: equal only if all bits are.
  [[nodiscard]] std::vector<std::uint32_t> gradient_bits() const;
  [[nodiscard]] std::vector<std::uint32_t> parameter_bits() const;
  [[nodiscard]] std::vector<float> logits(const runtime::FillBatch& fill, runtime::OperationHook* hook = nullptr);

 private:
  ModelConfig config_;
  kernels::ThreadTeam team_;
  kernels::ExecutionContext context_;
  runtime::SequentialTrainer loop_;
};

/// Microbatches of `rows` rows from a list of rows; the target of a row's last token is masked; one document per row.
[[nodiscard]] runtime::FillBatch rows_of(std::vector<std::int32_t> ids, std::int64_t rows, std::int64_t sequence);

/// A small model without a golden file; and, for it, a loop of microbatches of two rows of twelve tokens, three of them a step, with the
/// step's number of valid targets.
[[nodiscard]] ModelConfig tiny_model(bool tied);
[[nodiscard]] LoopOptions tiny_loop();
inline constexpr std::int64_t tiny_microbatches = 3, tiny_targets = tiny_microbatches * 2 * 11;
[[nodiscard]] runtime::FillBatch tiny_batches();
/// Token ids from a seed.
[[nodiscard]] std::vector<std::int32_t> random_ids(std::size_t count, std::int64_t vocabulary, std::uint32_t seed);

/// tests/golden/<name>.
[[nodiscard]] std::string golden_folder(const std::string& name);
[[nodiscard]] std::vector<std::int32_t> read_ids(const runtime::SafetensorsFile& file, const std::string& name);
[[nodiscard]] std::vector<float> read_floats(const runtime::SafetensorsFile& file, const std::string& name);

[[nodiscard]] double largest(const std::vector<float>& values);
/// Largest absolute difference; infinite if sizes differ or a value is NaN.
[[nodiscard]] double largest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace millrace::layers::testing
