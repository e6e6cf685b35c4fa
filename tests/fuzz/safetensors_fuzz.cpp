// A safetensors file: the result must be one of our errors, or tensors that can all be read.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/io/safetensors.hpp"
#include "tests/fuzz/input_file.hpp"

using millrace::Error;
using millrace::ExitCode;
namespace runtime = millrace::runtime;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const millrace::fuzz::InputFile input;
  try {
    const runtime::SafetensorsFile file(input.fill(data, size), ExitCode::model);
    std::uint64_t bytes = 0;
    for (const auto& tensor : file.tensors()) {
      bytes += tensor.bytes();
      std::vector<std::byte> stored(tensor.bytes());
      file.read_bytes(tensor, 0, stored);
      if (file.find(tensor.name) != &tensor) std::abort();
      if (!runtime::is_plain_float(tensor.dtype)) continue;
      std::vector<float> values(tensor.elements());
      file.read(tensor.name, std::span<float>(values));
    }
    if (bytes > size) std::abort();  // tensors would overlap
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) std::abort();
  }
  return 0;
}
