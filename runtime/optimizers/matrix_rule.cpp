#include "runtime/optimizers/matrix_rule.hpp"

#include <array>
#include <string>

namespace millrace::runtime {
namespace {

/// Embeddings, output heads, biases, and the taps of a convolution, which are a filter for each channel and not a linear map.
const std::array<std::string, 6> hugging_face_others{"embed", "lm_head", "(^|/)wte/", "(^|/)wpe/", "bias", "conv1d"};
/// Those of MaxText's get_muon_weight_dimension_numbers, with the biases of experts and convolutions, which its models with Muon lack.
const std::array<std::string, 12> maxtext_others{"scale",   "embedding", "logits_dense", "post_beta", "pre_beta", "res_beta",
                                                 "hc_base", "sinks",     "tid2eid",      "bias",      "conv1d",   "short_conv"};

NamePatterns others(const TrainConfig& train, bool inputs_first) {
  if (!train.muon_exclude.empty()) return {"train.muon_exclude", train.muon_exclude};
  return inputs_first ? NamePatterns("train.muon_exclude", maxtext_others) : NamePatterns("train.muon_exclude", hugging_face_others);
}

}  // namespace

MatrixRule::MatrixRule(const TrainConfig& train, bool inputs_first) : inputs_first_(inputs_first), exclude_(others(train, inputs_first)) {}

kernels::MatrixForm MatrixRule::matrices(std::string_view name, const kernels::Shape& shape, const StoredForm& stored) const {
  const std::size_t axes = shape.rank();
  if (axes < 2 || shape.elements() == 0 || exclude_.match(name)) return {};
  if (!stored.parts.empty() && stored.shape.rank() < 2) return {};  // a stack of vectors
  kernels::MatrixForm form{.count = 1, .rows = shape[axes - 2], .columns = shape[axes - 1]};
  for (std::size_t axis = 0; axis + 2 < axes; ++axis) form.count *= shape[axis];
  if (const auto parts = static_cast<std::int64_t>(stored.parts.size()); parts > form.count && form.count * form.rows % parts == 0) {
    form.rows = form.count * form.rows / parts;  // matrices that are stored apart, stacked along the rows
    form.count = parts;
  }
  form.rows_are_outputs = !inputs_first_ && !stored.transposed;
  return form;
}

}  // namespace millrace::runtime
