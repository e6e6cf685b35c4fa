#include "layers/losses/cross_entropy.hpp"

namespace millrace::layers {
namespace {

runtime::ValueId weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  const kernels::Shape shape{table.vocabulary, table.width};
  if (!table.stored_transposed) return builder.parameter(table.name, shape, {.use = table.use});
  return builder.parameter(table.name, shape, {.stored = {{table.width, table.vocabulary}, true, {}}, .use = table.use});
}

}  // namespace

runtime::ValueId output_loss(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table, runtime::ValueId targets,
                             const kernels::CrossEntropyOptions& form) {
  return runtime::linear_cross_entropy(builder, h, weight(builder, table), targets, form, "cross_entropy");
}

runtime::ValueId output_logits(runtime::ProgramBuilder& builder, runtime::ValueId h, const HeadTable& table,
                               const kernels::CrossEntropyOptions& form) {
  return runtime::logits(builder, h, weight(builder, table), form, "logits");
}

}  // namespace millrace::layers
