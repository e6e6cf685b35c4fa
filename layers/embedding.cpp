#include "layers/embedding.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId token_embedding(runtime::ProgramBuilder& builder, std::int64_t vocabulary, std::int64_t width, const std::string& name) {
  return runtime::embedding(builder, builder.batch("tokens"), builder.parameter(name, {vocabulary, width}), "embed_tokens");
}

}  // namespace millrace::layers
