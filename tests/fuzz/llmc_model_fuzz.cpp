// llm.c's model file: the result must be one of our errors, or a GPT-2 whose tensors can all be read and written again.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/formats/llmc_file.hpp"
#include "layers/models/model.hpp"
#include "tests/fuzz/input_file.hpp"

using millrace::Error;
using millrace::ExitCode;
namespace layers = millrace::layers;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const millrace::fuzz::InputFile input;
  const std::string& path = input.fill(data, size);
  try {
    (void)layers::read_llmc_config(path);
    const auto config = layers::read_config_file(path).model;
    const layers::LlmcWeights weights(path, config);
    if (config.layers > 64) return 0;
    std::vector<float> values;
    for (const auto& spec : layers::model_parameters(config)) {
      values.resize(static_cast<std::size_t>(spec.shape.elements()));
      weights.read(spec, values);
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) std::abort();
  }
  return 0;
}
