#include <fmt/ranges.h>

#include <array>

#include "kernels/base/check.hpp"
#include "layers/decoders/decoder.hpp"
#include "layers/decoders/llama.hpp"

namespace millrace::layers {
namespace {

std::array<const Decoder*, 1> families() { return {&llama()}; }

}  // namespace

InitialKind Decoder::initial(const std::string&, const kernels::Shape& shape) const {
  return shape.rank() >= 2 ? InitialKind::normal : InitialKind::ones;
}

const Decoder& decoder_of(const ModelConfig& config) {
  for (const Decoder* decoder : families()) {
    if (decoder->family() == config.family) return *decoder;
  }
  fail(ExitCode::model, "layers.decoders", "model.family = \"{}\", wanted one of: {}", config.family, fmt::join(known_families(), ", "));
}

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Decoder* decoder : families()) names.emplace_back(decoder->family());
  return names;
}

}  // namespace millrace::layers
