// config.json of transformers and of MaxText: the result must be one of our errors or a model, and a model must survive being
// written and read again.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels/base/check.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"

using millrace::Error;
using millrace::ExitCode;
namespace layers = millrace::layers;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  layers::ConfigFile file;
  try {
    file = layers::parse_config_file({reinterpret_cast<const char*>(data), size}, "config.json");
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) std::abort();
    return 0;
  }
  try {
    const auto text = layers::config_file_text(file, "float32");
    const auto again = layers::parse_config_file(text, "export");
    if (!(again.model == file.model) || !(again.losses == file.losses) || again.token_ids != file.token_ids) {
      std::puts(text.c_str());
      std::abort();
    }
  } catch (const Error& error) {
    std::puts(error.what());
    std::abort();
  }
  if (file.model.layers > 4) return 0;  // larger models add nothing new
  try {
    if (layers::count_parameters(file.model) < 1) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) std::abort();
  }
  return 0;
}
