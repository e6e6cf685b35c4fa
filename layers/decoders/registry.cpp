#include <fmt/ranges.h>

#include <array>

#include "kernels/base/check.hpp"
#include "layers/decoders/decoder.hpp"
#include "layers/decoders/default_block.hpp"
#include "layers/decoders/gemma.hpp"
#include "layers/decoders/gemma2.hpp"
#include "layers/decoders/gemma3.hpp"
#include "layers/decoders/gpt2.hpp"
#include "layers/decoders/gpt3.hpp"
#include "layers/decoders/llama.hpp"
#include "layers/decoders/llama2.hpp"
#include "layers/decoders/mistral.hpp"
#include "layers/decoders/olmo3.hpp"
#include "layers/decoders/qwen2.hpp"
#include "layers/decoders/qwen3.hpp"
#include "layers/decoders/simple.hpp"
#include "layers/decoders/simple_mlp.hpp"

namespace millrace::layers {
namespace {

auto families() {
  const auto all = std::to_array<const Decoder*>({&llama(), &mistral(), &gemma(), &gemma2(), &gemma3(), &qwen2(), &qwen3(), &olmo3(),
                                                  &gpt2(), &default_block(), &llama2(), &gpt3(), &simple(), &simple_mlp()});
  static_assert(all.size() == model_families.size(), "a family stands here and in model_families");
  return all;
}

}  // namespace

Initial Decoder::initial(const ModelConfig&, const std::string& name, const kernels::Shape& shape) const {
  if (name.ends_with(".bias")) return {InitialKind::zeros};
  return {shape.rank() >= 2 ? InitialKind::normal : InitialKind::ones};
}

const Decoder& decoder_of(const ModelConfig& config) {
  for (const Decoder* decoder : families()) {
    if (decoder->family() == config.family) return *decoder;
  }
  fail(ExitCode::model, "layers.decoders", "model.family = \"{}\", expected one of: {}", config.family, fmt::join(known_families(), ", "));
}

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const Decoder* decoder : families()) names.emplace_back(decoder->family());
  return names;
}

}  // namespace millrace::layers
