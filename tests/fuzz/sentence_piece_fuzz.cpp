#include "runtime/data/tokenizers/sentence_piece.hpp"
#include "tests/fuzz/try_tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  millrace::tests::try_tokenizer([&] { return millrace::runtime::read_sentence_piece(bytes, "tokenizer.model"); });
  return 0;
}
