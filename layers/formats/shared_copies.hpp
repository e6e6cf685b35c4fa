#pragma once

#include <string>
#include <vector>

#include "layers/parameter.hpp"

namespace millrace::layers {

/// A tensor of a checkpoint that repeats another one: DeepSeek-V3's files have the embedding's table and the head's once more in every
/// module that predicts further tokens. Models hold each once.
struct SharedCopy {
  std::string name;
  std::string of;
};

/// The copies beside these parameters. Exports contain them, since other programs read modules from them; in imports they may be missing.
[[nodiscard]] std::vector<SharedCopy> shared_copies(const std::vector<ParameterSpec>& specs);

}  // namespace millrace::layers
