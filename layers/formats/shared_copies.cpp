#include "layers/formats/shared_copies.hpp"

#include <algorithm>
#include <string_view>

namespace millrace::layers {

std::vector<SharedCopy> shared_copies(const std::vector<ParameterSpec>& specs) {
  constexpr std::string_view projection = ".eh_proj.weight", embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  const bool tied = std::ranges::find(specs, head, &ParameterSpec::name) == specs.end();
  std::vector<SharedCopy> copies;
  for (const ParameterSpec& spec : specs) {
    if (!spec.name.ends_with(projection)) continue;
    const std::string module = spec.name.substr(0, spec.name.size() - projection.size());
    copies.push_back({module + ".embed_tokens.weight", std::string(embedding)});
    copies.push_back({module + ".shared_head.head.weight", std::string(tied ? embedding : head)});
  }
  return copies;
}

}  // namespace millrace::layers
