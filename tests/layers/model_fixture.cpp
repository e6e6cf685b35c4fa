#include "tests/layers/model_fixture.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "layers/formats/model_folder.hpp"
#include "layers/initial_values.hpp"
#include "runtime/optimizers/parameter_groups.hpp"
#include "runtime/passes/differentiate.hpp"
#include "tests/support/paths.hpp"

namespace millrace::layers::testing {
namespace {

std::vector<runtime::RankStage> build_stages(const ModelConfig& config, const LoopOptions& options) {
  const auto count = options.layout.empty() ? 1 : std::count(options.layout.begin(), options.layout.end(), '|') + 1;
  const auto layout = options.layout.empty() ? uniform_layout(chain_of(config), 1) : parse_layout(options.layout, chain_of(config), count);
  const auto policy = runtime::RematerializationPolicy::parse(options.rematerialize, known_labels(config));
  std::vector<runtime::RankStage> stages;
  for (const StageLayout& part : layout) {
    runtime::RankStage stage;
    stage.stage = runtime::StageId{stages.size()};
    StageOptions stage_options{options.compute, options.rows, options.sequence, options.losses, Output::loss};
    stage.training = runtime::differentiate(build_stage(config, part, stage_options), policy);
    stage_options.output = Output::logits;
    if (part.head) stage.logits = runtime::differentiate(build_stage(config, part, stage_options), policy);
    for (const ParameterSpec& spec : parameters(config, part, options.losses)) {
      stage.parameters.push_back({.name = spec.name,
                                  .shape = spec.shape,
                                  .stage = stage.stage,
                                  .use = spec.use,
                                  .order = spec.order,
                                  .decays = runtime::ParameterGroups(options.train).decays(spec.name, spec.shape),
                                  .router = spec.router,
                                  .trained = spec.trained,
                                  .experts = spec.experts});
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::vector<float> values(const kernels::Tensor& tensor) { return {tensor.as<float>(), tensor.as<float>() + tensor.elements()}; }

void append_bits(std::vector<std::uint32_t>& bits, const kernels::Tensor& tensor) {
  for (const float value : values(tensor)) bits.push_back(std::bit_cast<std::uint32_t>(value));
}

}  // namespace

Model::Model(const ModelConfig& config, const LoopOptions& options)
    : config_(config),
      team_(options.threads),
      context_(team_, options.implementation, options.device),
      loop_(build_stages(config, options), {options.compute,
                                            options.mode,
                                            options.accumulators,
                                            1,
                                            true,
                                            options.staging,
                                            options.threads,
                                            false,
                                            {},
                                            context_.device(),
                                            runtime::make_optimizer(options.train),
                                            options.expert_accumulators,
                                            1,
                                            1,
                                            1,
                                            options.leaves}) {}

void Model::load(const std::string& folder) {
  const FolderWeights weights(folder, config_);
  for (const ParameterSpec& spec : model_parameters(config_)) weights.read(spec, master(spec.name));
  refresh_copies();
}

void Model::initialise(std::uint64_t seed) {
  for (const ParameterSpec& spec : model_parameters(config_)) initial_values(spec, config_.initializer_range, seed, 0, master(spec.name));
  refresh_copies();
}

void Model::refresh_copies() const {
  for (const runtime::Stage* stage : stages()) stage->shard().refresh_copies(context_);
}

std::vector<float> Model::gradient(const std::string& name) const {
  const runtime::StageShard& shard = loop_.rank().shard_with(name);
  return values(shard.gradient(shard.layout().at(name)));
}

std::vector<float> Model::parameter(const std::string& name) const {
  const auto elements = master(name);
  return {elements.begin(), elements.end()};
}

std::vector<std::uint32_t> Model::gradient_bits() const {
  std::vector<std::uint32_t> bits;
  for (const runtime::Stage* stage : stages())
    for (const auto& tensor : stage->shard().tensors()) append_bits(bits, stage->shard().gradient(tensor));
  return bits;
}

std::vector<std::uint32_t> Model::parameter_bits() const {
  std::vector<std::uint32_t> bits;
  for (const runtime::Stage* stage : stages()) {
    const runtime::StageShard& shard = stage->shard();
    for (const auto& tensor : shard.tensors()) {
      append_bits(bits, shard.master(tensor));
      for (std::size_t state = 0; state < shard.states().size(); ++state)
        if (tensor.has_state(state)) append_bits(bits, shard.state(tensor, state));
    }
  }
  return bits;
}

std::vector<float> Model::logits(const runtime::FillBatch& fill, runtime::OperationHook* hook) {
  return values(loop_.logits(context_, fill, hook));
}

runtime::FillBatch rows_of(std::vector<std::int32_t> ids, std::int64_t rows, std::int64_t sequence) {
  return [ids = std::move(ids), rows, sequence](std::int64_t m, const runtime::BatchView& batch) {
    for (std::int64_t t = 0; t < rows * sequence; ++t) {
      const auto at = static_cast<std::size_t>(t), from = static_cast<std::size_t>(m * rows * sequence + t);
      batch.tokens[at] = ids.at(from);
      batch.positions[at] = static_cast<std::int32_t>(t % sequence);
      batch.segments[at] = 1;
      batch.targets[at] = t % sequence == sequence - 1 ? -1 : ids.at(from + 1);
    }
  };
}

ModelConfig tiny_model(bool tied) {
  ModelConfig config;
  config.vocab_size = 61;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.layers = 4;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.rms_norm_eps = 1e-5;
  config.tie_word_embeddings = tied;
  config.initializer_range = 0.1;
  return config;
}

LoopOptions tiny_loop() {
  LoopOptions options;
  options.rows = 2;
  options.sequence = 12;
  return options;
}

runtime::FillBatch tiny_batches() { return rows_of(random_ids(tiny_microbatches * 24, 61, 9), 2, 12); }

std::vector<std::int32_t> random_ids(std::size_t count, std::int64_t vocabulary, std::uint32_t seed) {
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) {
    seed = seed * 1664525U + 1013904223U;
    id = static_cast<std::int32_t>((seed >> 8) % static_cast<std::uint32_t>(vocabulary));
  }
  return ids;
}

std::string golden_folder(const std::string& name) { return tests::source_path("tests/golden/" + name); }

std::vector<std::int32_t> read_ids(const runtime::SafetensorsFile& file, const std::string& name) {
  const auto& tensor = file.at(name);
  if (tensor.dtype == runtime::FileDType::i32) {
    std::vector<std::int32_t> ids(tensor.elements());
    file.read_bytes(tensor, 0, std::as_writable_bytes(std::span(ids)));
    return ids;
  }
  std::vector<std::int64_t> wide(tensor.elements());
  file.read_bytes(tensor, 0, std::as_writable_bytes(std::span(wide)));
  return {wide.begin(), wide.end()};
}

std::vector<float> read_floats(const runtime::SafetensorsFile& file, const std::string& name) {
  std::vector<float> result(file.at(name).elements());
  file.read(name, std::span<float>(result));
  return result;
}

double largest(const std::vector<float>& list) {
  double most = 0;
  for (const float value : list) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    most = std::max(most, difference);
  }
  return most;
}

}  // namespace millrace::layers::testing
