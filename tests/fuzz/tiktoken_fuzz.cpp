#include <array>

#include "runtime/data/tokenizers/tiktoken.hpp"
#include "tests/fuzz/try_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<std::string, 7> names = {"o200k", "cl100k", "llama3", "qwen", "p50k", "r50k", "?"};
  const std::string& name = names[size % names.size()];
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  millrace::tests::try_tokenizer([&] { return millrace::runtime::read_tiktoken(text, name, "x.tiktoken"); });
  return 0;
}
