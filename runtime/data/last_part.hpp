#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/data/token_stream.hpp"

namespace millrace::runtime {

/// Where the last part of a stream begins that is held out of a single file.
struct LastPart {
  std::int64_t begin = 0;    // its first token; the stream's size if nothing can be held out
  bool at_document = false;  // begin is the first token of a document
  std::string problem;       // why nothing can be held out; empty otherwise
};

/// The last n-th of the stream's tokens, `every` = n, 2 or more. Where the stream has several documents the part begins with the document
/// whose beginning is nearest to that, and holds half of the tokens at most: no document is split. A stream that is one document is cut
/// where the last n-th begins.
[[nodiscard]] LastPart last_part(const TokenStream& stream, std::int64_t every);

/// The tokens [first, last) of a stream, as a stream.
[[nodiscard]] std::unique_ptr<TokenStream> part_of(std::shared_ptr<const TokenStream> stream, std::int64_t first, std::int64_t last);

}  // namespace millrace::runtime
