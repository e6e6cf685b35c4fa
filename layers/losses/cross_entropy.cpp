#include "layers/losses/cross_entropy.hpp"

namespace millrace::layers {

runtime::ValueId head_weight(runtime::ProgramBuilder& builder, const HeadTable& table) {
  const kernels::Shape shape{table.vocabulary, table.width};
  if (!table.stored_transposed) return builder.parameter(table.name, shape, {.use = table.use});
  return builder.parameter(table.name, shape, {.stored = {{table.width, table.vocabulary}, true, {}}, .use = table.use});
}

runtime::ValueId cross_entropy(runtime::ProgramBuilder& builder, const HeadOperands& head, runtime::ValueId targets) {
  return runtime::linear_cross_entropy(builder, head.h, head_weight(builder, head.table), targets, head.form, "cross_entropy");
}

runtime::ValueId output_logits(runtime::ProgramBuilder& builder, const HeadOperands& head) {
  return runtime::logits(builder, head.h, head_weight(builder, head.table), head.form, "logits");
}

}  // namespace millrace::layers
