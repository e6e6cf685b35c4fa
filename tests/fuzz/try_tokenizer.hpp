#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::tests {

/// Reads a tokenizer by `read`; if that succeeds, it must encode a text into ids of its vocabulary. An Error(data) is a valid
/// result, everything else is a finding.
template <class Read>
void try_tokenizer(Read read) {
  try {
    const std::unique_ptr<runtime::Tokenizer> tokenizer = read();
    std::vector<std::int32_t> ids;
    tokenizer->encode("It's 1234 words,\r\n  \tna\u00efve e\u0301 \u4e2d\u6587 \U0001f600 <|endoftext|> \xff\xc0", ids);
    tokenizer->encode_rest("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bb", ids);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer->vocabulary()) std::abort();
    }
    static_cast<void>(tokenizer->decode(ids));
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
}

}  // namespace millrace::tests
