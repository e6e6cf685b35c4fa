#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.hpp"
#include "kernels/base/shape.hpp"
#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"
#include "layers/parameter.hpp"
#include "layers/partition.hpp"
#include "runtime/program/loss_weights.hpp"
#include "runtime/program/program.hpp"

namespace millrace::layers {

/// The result of the last stage.
enum class Output : std::uint8_t { loss, logits };

struct StageOptions {
  kernels::DType compute = kernels::DType::f32;
  std::int64_t rows = 1;      // of a microbatch
  std::int64_t sequence = 1;  // tokens of a row
  runtime::LossWeights losses = {};
  Output output = Output::loss;
  runtime::ExpertGroup experts = {};  // the ranks that share the experts, and which of them the stage is for
  bool one_segment = false;           // every row is one segment
  bool internal_metrics = false;      // the stage observes statistics of every layer's output
};

/// The layers and the modules of multi-token prediction that are divided into stages.
[[nodiscard]] inline ChainLength chain_of(const ModelConfig& config) { return {config.layers, config.mtp_layers}; }

/// Returns the parts of each layer of the model. Throws Error(model) if the config does not fit its family.
[[nodiscard]] ModelSpec resolve(const ModelConfig& config);

/// The forward program of one stage. The division of a model into stages changes no bit of its numbers.
/// Throws Error(model) if the config does not fit its family.
[[nodiscard]] runtime::ForwardProgram build_stage(const ModelConfig& config, const StageLayout& stage, const StageOptions& options);

/// The types of the ports of the boundary before decoder layer `layer`, in their order: those of the programs of build_stage on either
/// side. Modules of multi-token prediction are counted on from the layers; the number of both: before the head.
[[nodiscard]] std::vector<runtime::ValueType> boundary_types(const ModelConfig& config, int layer, const StageOptions& options);

/// The parameters of a stage, in model order: embedding, layers from 0, modules of multi-token prediction, final norm, head. A tied table
/// is in the list of the embedding's stage with use 0 and in that of the head's stage with use 1, under one name; in that of the m-th
/// module with use 1 + m. `losses` decide which of them are trained; of weights of experts they are those of the group's member.
[[nodiscard]] std::vector<ParameterSpec> parameters(const ModelConfig& config, const StageLayout& stage,
                                                    const runtime::LossWeights& losses = {}, const runtime::ExpertGroup& experts = {});
/// The same where the parameters of the whole model are known: `model` are model_parameters(config, losses), which are slow to collect.
[[nodiscard]] std::vector<ParameterSpec> parameters(const std::vector<ParameterSpec>& model, const ModelConfig& config,
                                                    const StageLayout& stage, const runtime::LossWeights& losses = {},
                                                    const runtime::ExpertGroup& experts = {});

/// The whole model: every tensor once, in model order; `order` is the index.
[[nodiscard]] std::vector<ParameterSpec> model_parameters(const ModelConfig& config, const runtime::LossWeights& losses = {});

/// Numbers of weights.
struct ParameterCounts {
  std::int64_t all = 0;
  std::int64_t active = 0;  // those that compute on one token: of E experts, K of which a token has, K / E
};

/// Adds up `parameters`, such as model_parameters(): a table that is listed twice counts twice.
[[nodiscard]] ParameterCounts parameter_counts(std::span<const ParameterSpec> parameters);

/// Weights of the model; a tied table counts once. Builds the whole model.
[[nodiscard]] std::int64_t count_parameters(const ModelConfig& config);

/// The maximum number of tokens per row if the model has learned positions or a table of angles; not set if any length can be computed.
[[nodiscard]] std::optional<std::int64_t> longest_row(const ModelConfig& config);

/// The labels that the family's decoder layers write, sorted: what a rematerialisation policy may name.
[[nodiscard]] std::vector<std::string> known_labels(const ModelConfig& config);

}  // namespace millrace::layers
