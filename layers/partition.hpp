#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::layers {

/// The contents of one virtual stage: decoder layers [first_layer, first_layer + layer_count), before them the embedding, after them
/// modules of multi-token prediction (layers/models/mtp.hpp), after these the head. The modules are counted on from the model's last layer:
/// those of a stage are [end of its layers, + modules), and a stage that begins with a module has its number as first_layer. A layer may be
/// divided between its attention and its MLP or experts: then both stages count it.
struct StageLayout {
  bool embedding = false;
  int first_layer = 0;
  int layer_count = 0;
  bool head = false;
  int modules = 0;
  bool starts_with_ffn = false;      ///< its first layer is only the MLP or the experts, with their norms and residual connection
  bool ends_with_attention = false;  ///< its last layer is only the attention, with its norms and residual connection

  [[nodiscard]] bool empty() const noexcept { return !embedding && !head && layer_count == 0 && modules == 0; }
  /// The number of its layers and modules.
  [[nodiscard]] int length() const noexcept { return layer_count + modules; }
  /// Whether it has a part of a layer.
  [[nodiscard]] bool divides_layers() const noexcept { return starts_with_ffn || ends_with_attention; }
  /// The number of the layer or module behind its last one.
  [[nodiscard]] int end() const noexcept { return first_layer + length(); }
  bool operator==(const StageLayout&) const = default;
};

/// The chain that is divided into stages: decoder layers, and after them modules of multi-token prediction.
struct ChainLength {
  std::int64_t layers = 0;
  std::int64_t modules = 0;
  [[nodiscard]] constexpr std::int64_t all() const noexcept { return layers + modules; }
};

/// Parses a layout string such as "E t*3 | t*4 | t*2 M H": stages are separated by '|', and each contains `E` (embedding), `t` or
/// `t*3` (decoder layers), `M` or `M*2` (modules of multi-token prediction) and `H` (final norm and head). `a` is the attention of a layer
/// and `f` its MLP or experts: "E t a | f | a f H" has the second layer's apart; `a f` in one stage is `t`. A stage without any of these is
/// empty and passes its input on. The embedding must be first and the head last, each once; modules come after all layers; an `f` follows
/// each `a`; and layers and modules must add up to those of the model. `stages` is the expected number, ranks · chunks. Throws
/// Error(config) with what was found and what was expected.
[[nodiscard]] std::vector<StageLayout> parse_layout(std::string_view text, ChainLength chain, std::int64_t stages);

/// The layout string of the stages; parse_layout reads it back.
[[nodiscard]] std::string print_layout(const std::vector<StageLayout>& stages);

/// The largest number of stages of which none is empty: a stage for each layer and module, for the embedding and for the head.
[[nodiscard]] constexpr std::int64_t most_stages(ChainLength chain) { return chain.all() + 2; }

/// Distributes the layers evenly, for 1 <= stages <= most_stages(). If they do not divide evenly, earlier stages get one layer more,
/// but never the last stage, which also has the modules and the head. With more than `layers` stages the last one has no layers, with more
/// than layers + 1 the embedding is a stage of its own, and with still more so are the modules, evenly. Throws Error(config) for any other
/// number of stages.
[[nodiscard]] std::vector<StageLayout> uniform_layout(ChainLength chain, std::int64_t stages);

/// The stages with so many layers and modules of the chain each; the embedding is in the first stage, the head in the last.
[[nodiscard]] std::vector<StageLayout> layout_of_counts(ChainLength chain, const std::vector<int>& counts);

}  // namespace millrace::layers
