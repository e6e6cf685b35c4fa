#pragma once

#include <string_view>

#include "kernels/base/activation.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// The function that `key` names as transformers' ACT2FN does. Error(model) for a name that is not there. The key has to be there.
[[nodiscard]] kernels::Activation read_activation(runtime::JsonReader& reader, const char* key);

/// A name of ACT2FN for the function. The tanh form of GELU has several names; `tanh_gelu` is the one that the model's class uses.
[[nodiscard]] std::string_view activation_name(kernels::Activation activation, std::string_view tanh_gelu = "gelu_pytorch_tanh");

}  // namespace millrace::layers
