#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// Which values of a decoder layer are kept for its backward. The layer's input and the parameters are always kept, and so are
/// integer routing decisions. All others are recomputed in I from the layer's input, by the same kernels with the same shapes,
/// directly before the layer's backward.
struct RematerializationPolicy {
  bool keep_everything = true;
  std::set<std::string> keep;     // labels, if not everything is kept
  std::set<std::string> offload;  // labels of kept values that are offloaded to host memory until their backward

  /// Parses a policy: "none" keeps everything, "full" keeps nothing; "minimal", "minimal_with_context", "save_qkv_proj",
  /// "save_out_proj", "save_dot_except_mlp", "save_dot_except_mlpwi", "save_dot_with_context_except_mlp" are MaxText's sets;
  /// anything else is a comma-separated list of labels. "offload:LABEL" may be combined with any of these; alone it keeps nothing
  /// else. Throws Error(config) with the nearest known word. `known_labels` are those that the model writes.
  [[nodiscard]] static RematerializationPolicy parse(std::string_view text, const std::vector<std::string>& known_labels);
};

}  // namespace millrace::runtime
