#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "layers/models/model.hpp"
#include "layers/models/model_family.hpp"

namespace millrace::layers {

/// A stream with the type that it has in one program.
struct StreamType {
  std::string name;
  runtime::ValueType type;
};

/// The streams that decoder layer `layer` receives, in the order of their ports; modules of multi-token prediction are counted on from the
/// layers, and the number of both means the head. Behind a module there is its own stream beside those of the family. Throws
/// Error(internal) if two have one name, or if none has a gradient: the backward of a stage begins when a gradient arrives.
[[nodiscard]] std::vector<StreamType> streams_before(const ModelFamily& family, const ModelSpec& model, int layer,
                                                     const runtime::ProgramBuilder& builder);

/// The ports of the previous stage as the streams of this one.
[[nodiscard]] Streams receive(runtime::ProgramBuilder& builder, const std::vector<StreamType>& types);

/// What `from` ("layer 3") hands on, in the order of the boundary before `to`. A value that is several streams is copied, so that the
/// gradients of each are summed by themselves wherever the model is cut. Throws Error(internal) naming the layer, the stream, what was
/// found and what is expected.
[[nodiscard]] Streams hand_on(runtime::ProgramBuilder& builder, const Streams& streams, const std::vector<StreamType>& expected,
                              const std::string& from, const std::string& to);

}  // namespace millrace::layers
