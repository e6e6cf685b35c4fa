#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// Which values of a decoder layer are kept for its backward. The layer's input and the parameters always are; integer routing decisions
/// too. What is not kept is computed again in I from the layer's input, by the same kernels with the same shapes, just before the layer's
/// backward.
struct RematerializationPolicy {
  bool keep_everything = true;
  std::set<std::string> keep;     // labels, when not everything is kept
  std::set<std::string> offload;  // labels of kept values that wait for their backward in the host's memory

  /// "none" keeps everything, "full" keeps nothing; "minimal", "minimal_with_context", "save_qkv_proj", "save_out_proj",
  /// "save_dot_except_mlp", "save_dot_except_mlpwi", "save_dot_with_context_except_mlp" are MaxText's sets; otherwise a comma-separated
  /// list of labels. Words "offload:LABEL" may stand beside any of these; alone they keep nothing else. Throws Error(config) naming the
  /// nearest known word. `known_labels` are those that the model writes.
  [[nodiscard]] static RematerializationPolicy parse(std::string_view text, const std::vector<std::string>& known_labels);
};

}  // namespace millrace::runtime
