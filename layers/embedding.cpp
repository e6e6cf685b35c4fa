#include "layers/embedding.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {

runtime::ValueId token_embedding(runtime::ProgramBuilder& builder, std::int64_t vocabulary, std::int64_t width, const std::string& name) {
  return runtime::embedding(builder, builder.batch("tokens"), builder.parameter(name, {vocabulary, width}), "embed_tokens");
}

runtime::ValueId position_embedding(runtime::ProgramBuilder& builder, std::int64_t positions, std::int64_t width, const std::string& name) {
  return runtime::embedding(builder, builder.batch("positions"), builder.parameter(name, {positions, width}), "embed_positions");
}

}  // namespace millrace::layers
