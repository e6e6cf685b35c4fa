#include "layers/embedding.hpp"

#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId rows_of(runtime::ProgramBuilder& builder, runtime::ValueId indices, const EmbeddingTable& table, const char* name) {
  return runtime::embedding(builder, indices, builder.parameter(table.name, {table.rows, table.width}, {.use = table.use}), name);
}

}  // namespace

runtime::ValueId token_embedding(runtime::ProgramBuilder& builder, runtime::ValueId tokens, const EmbeddingTable& table) {
  return rows_of(builder, tokens, table, "embed_tokens");
}

runtime::ValueId position_embedding(runtime::ProgramBuilder& builder, runtime::ValueId positions, const EmbeddingTable& table) {
  return rows_of(builder, positions, table, "embed_positions");
}

}  // namespace millrace::layers
