#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/data/token_stream.hpp"

namespace millrace::runtime {

/// The place where the held-out last part of a single file's stream begins.
struct LastPart {
  std::int64_t begin = 0;    // index of its first token; the stream's size if nothing can be held out
  bool at_document = false;  // begin is the first token of a document
  std::string problem;       // why nothing can be held out; empty if something can
};

/// The last n-th of the stream's tokens, with n = `every` >= 2. If the stream has several documents, the part begins with the
/// document whose beginning is nearest to that point, and holds at most half of the tokens; no document is split. A stream of a
/// single document is cut at the last n-th.
[[nodiscard]] LastPart last_part(const TokenStream& stream, std::int64_t every);

/// The tokens [first, last) of a stream as a stream of their own.
[[nodiscard]] std::unique_ptr<TokenStream> part_of(std::shared_ptr<const TokenStream> stream, std::int64_t first, std::int64_t last);

}  // namespace millrace::runtime
