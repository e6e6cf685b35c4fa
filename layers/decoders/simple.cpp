#include "layers/decoders/simple.hpp"

#include "layers/decoders/maxtext_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Simple final : public MaxTextDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "simple"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const MaxTextLayer layer = begin_layer(builder, config, index, x);
    return layer.product(x, "weights", config.hidden_size, config.hidden_size);
  }
};

}  // namespace

const Decoder& simple() {
  static const Simple decoder;
  return decoder;
}

}  // namespace millrace::layers
