#include "layers/formats/maxtext/linear_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace millrace::layers {
namespace {

using runtime::JsonReader;
using runtime::OrderedJson;

/// M-RoPE's keys: the sections say how many pairs are turned by time, height and width, which are equal for the tokens of a text.
void read_sections(JsonReader& reader, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.sections || !reader.boolean("use_mrope").value_or(false)) return;
  const auto sections = reader.numbers("mrope_section", 3, 0, 1 << 16).value_or(std::vector<double>{24, 20, 20});  // MaxText's default
  const std::int64_t pairs = rotary_pairs(model.rope, model.head_dim);
  if (std::accumulate(sections.begin(), sections.end(), 0.0) != static_cast<double>(pairs))
    reader.refuse("mrope_section", fmt::format("expected three numbers whose sum is {}, the rotated pairs of a head", pairs));
}

}  // namespace

void read_maxtext_linear_attention(JsonReader& reader, const MaxTextFile& file, ModelConfig& model) {
  if (!file.hybrid) return;
  // MaxText's defaults.
  model.linear_conv_kernel_dim = reader.size("gdn_conv_kernel_dim", kernels::max_convolution_taps, 4);
  model.linear_key_head_dim = reader.size("gdn_key_head_dim", 1 << 16, 128);
  model.linear_value_head_dim = reader.size("gdn_value_head_dim", 1 << 16, 128);
  model.linear_key_heads = reader.size("gdn_num_key_heads", 1 << 16, 16);
  model.linear_value_heads = reader.size("gdn_num_value_heads", 1 << 16, 32);
  if (model.linear_value_heads % model.linear_key_heads != 0)
    reader.refuse("gdn_num_value_heads", fmt::format("expected a multiple of gdn_num_key_heads = {}", model.linear_key_heads));
  const std::int64_t every = reader.size("inhomogeneous_layer_cycle_interval", 1LL << 40, 1);
  for (std::int64_t i = 1; i <= model.layers; ++i) model.layer_kinds.push_back(i % every == 0 ? LayerKind::full : LayerKind::linear);
  if (model.rope.kind != RopeKind::none || model.rope_interleaved)
    reader.refuse("rope_type", fmt::format("supported by decoder_block \"{}\" is \"default\"", file.block));
  model.rope.proportion = reader.number("partial_rotary_factor", 0, 1).value_or(1.0);
  if (const std::int64_t rotated = rotary_dim(model.rope, model.head_dim); rotated < 2 || rotated % 2 != 0)
    reader.refuse("partial_rotary_factor",
                  fmt::format("which rotates {} of head_dim = {} features, expected an even number above 0", rotated, model.head_dim));
  read_sections(reader, file, model);
}

void write_maxtext_linear_attention(OrderedJson& json, const MaxTextFile& file, const ModelConfig& model) {
  if (!file.hybrid) return;
  json["gdn_conv_kernel_dim"] = model.linear_conv_kernel_dim;
  json["gdn_key_head_dim"] = model.linear_key_head_dim;
  json["gdn_value_head_dim"] = model.linear_value_head_dim;
  json["gdn_num_key_heads"] = model.linear_key_heads;
  json["gdn_num_value_heads"] = model.linear_value_heads;
  // The first layer of full attention is the last of a cycle; layers of another order are found when the file is read again.
  const auto first = std::ranges::find(model.layer_kinds, LayerKind::full) - model.layer_kinds.begin();
  json["inhomogeneous_layer_cycle_interval"] = model.layer_kinds.empty() ? 1 : first + 1;
  json["partial_rotary_factor"] = model.rope.proportion;
  if (!file.sections) return;
  const std::int64_t pairs = rotary_pairs(model.rope, model.head_dim);
  json["use_mrope"] = true;
  json["mrope_section"] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
}

}  // namespace millrace::layers
