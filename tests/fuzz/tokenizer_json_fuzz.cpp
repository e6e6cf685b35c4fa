#include "runtime/data/tokenizers/tokenizer_json.hpp"
#include "tests/fuzz/try_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  millrace::tests::try_tokenizer([&] { return millrace::runtime::read_tokenizer_json(text, "tokenizer.json"); });
  return 0;
}
