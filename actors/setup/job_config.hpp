#pragma once

#include <cstdint>
#include <string>

#include "actors/setup/cuda_config.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/status/status_config.hpp"
#include "layers/model_config.hpp"
#include "runtime/mesh_config.hpp"
#include "runtime/train_config.hpp"

namespace millrace::actors {

/// [log]
struct LogConfig {
  std::int64_t every = 0;  // steps between two lines; 0: chosen by what stdout is

  bool operator==(const LogConfig&) const = default;
};

/// The sections of a run description that the actors use; configs::RunConfig adds what only the command needs.
struct JobConfig {
  std::string directory;          // run.directory: checkpoints, metrics, traces; empty: nothing is written
  std::string record = "none";    // run.record: "none", or "hashes" of all tensors, written to the directory
  bool internal_metrics = false;  // run.record_internal_metrics: statistics of every layer's output on a step's record
  std::string device = "cpu";     // device: a name of kernels/base/devices.inc
  bool tensorboard = false;       // run.tensorboard: also write event files
  std::string model_from;         // model.from: a Hugging Face folder with the initial weights; empty: initialised from the seed
  layers::ModelConfig model;
  runtime::DataConfig data;
  runtime::TrainConfig train;
  runtime::EvaluateConfig evaluate;
  runtime::PipelineConfig pipeline;
  runtime::MeshConfig mesh;
  runtime::CheckpointConfig checkpoint;
  runtime::RematerializeConfig rematerialize;
  runtime::SampleConfig sample;
  LogConfig log;
  cluster::ClusterConfig cluster;
  cluster::StatusConfig status;
  CudaConfig cuda;

  /// The ranks of all copies of the pipeline.
  [[nodiscard]] std::int64_t ranks() const noexcept { return mesh.copies() * pipeline.ranks; }
};

}  // namespace millrace::actors
