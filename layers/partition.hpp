#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::layers {

/// The contents of one virtual stage: decoder layers [first_layer, first_layer + layer_count), before them the embedding, after them the
/// head.
struct StageLayout {
  bool embedding = false;
  int first_layer = 0;
  int layer_count = 0;
  bool head = false;

  [[nodiscard]] bool empty() const noexcept { return !embedding && !head && layer_count == 0; }
  bool operator==(const StageLayout&) const = default;
};

/// Reads a layout string: stages separated by '|', in each `E` (embedding), `t` or `t*3` (decoder layers) and `H` (final norm and head);
/// a stage with nothing between its bars is empty and passes its input on. "E t*3 | t*4 | t*2 H".
/// The embedding comes first, the head last, each once; the layers together are `layers`. `stages` is the expected number, ranks · chunks.
/// Throws Error(config) saying what was found and what was expected.
[[nodiscard]] std::vector<StageLayout> parse_layout(std::string_view text, std::int64_t layers, std::int64_t stages);

/// The layout string of the stages; parse_layout reads it back.
[[nodiscard]] std::string print_layout(const std::vector<StageLayout>& stages);

/// Layers spread evenly, 1 <= stages <= layers + 2: earlier stages take the larger share, save the last one, which has the head's work as
/// well. With stages = layers + 1 the head is a stage of its own, with layers + 2 the embedding too. Throws Error(config) outside of the
/// range.
[[nodiscard]] std::vector<StageLayout> uniform_layout(std::int64_t layers, std::int64_t stages);

}  // namespace millrace::layers
