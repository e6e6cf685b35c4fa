#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::runtime {

/// What a call through the I/O seam does. Every one counts as one call.
enum class FileOperation : std::uint8_t {
  open,
  create,
  read,
  write,
  sync,
  truncate,
  rename,
  unlink,
  make_directory,
  remove_directory,
  sync_directory,
  list,
  space,
  lock,
  drop_cache
};

[[nodiscard]] std::string_view to_string(FileOperation operation) noexcept;

/// One call, as a hook sees it, before it happens.
struct FileCall {
  std::uint64_t number = 0;  // from 1, counted over the process since the hook was set
  FileOperation operation = FileOperation::open;
  std::string_view path;
  std::uint64_t bytes = 0;  // read and write only
  std::string_view target;  // rename only: the new path
};

/// What a hook wants to happen instead.
enum class FileFault : std::uint8_t {
  none,
  io_error,     // EIO
  no_space,     // ENOSPC; a write leaves its first half behind, as a full disk does
  short_write,  // write(2) takes only half; the rest is written by the next call: no error
  kill,         // _exit(137); a write leaves its first half behind
  no_progress,  // write(2) takes nothing and reports no error: it returns 0
  unsupported,  // ENOTSUP, as a file system without locks answers
};

using FileHook = std::function<FileFault(const FileCall&)>;

/// Every file call of this process asks `hook` from now on; an empty hook ends that. Calls are counted from 1 again.
/// Thread: any, but not while another thread is inside a file call.
void set_file_hook(FileHook hook);

/// File calls since set_file_hook. 0 while no hook is set: counting is not paid for in an ordinary run.
[[nodiscard]] std::uint64_t file_calls() noexcept;

/// Something to do at a named point of the program: `hook(name)`, from whichever thread comes there, several at a time.
/// Points cost one predictable branch while no hook is set.
using PointHook = std::function<void(std::string_view name)>;
void set_point_hook(PointHook hook);

/// A place where a test may want to end the process, throw or wait. Names are "room.event": "checkpoint.after_rename".
void fault_point(const char* name);

/// Whether a rule asks for a NaN in this value now; counts. A program's value or a weight, by its name.
[[nodiscard]] bool value_fault(std::string_view name);
/// Whether any rule is about values: whoever runs operations asks about each only then.
[[nodiscard]] bool value_faults() noexcept;

/// Reads faults from the text of MILLRACE_FAULT and sets all hooks. Rules are separated by ';', the words of a rule by ':'. A rule is
///   io:call=17:enospc            the 17th file call fails          (eio | enospc | short | kill | none_written | enotsup)
///   io:from=17:eio               so does every later one
///   io:path=metrics:op=write:call=2:eio   counts only calls on paths that contain the text, of that operation
///   point=checkpoint.after_rename:hit=3:kill   the third time that the process comes there (kill | stop | throw)
///   point=stage1.forward:delay=20              waits 20 ms, every time; with hit= or from=, as they say
///   value=layers.1.mlp.up_proj:from=3:nan      a NaN in what this operation leaves, from its third run on; of a weight's name: in it
/// `rank=2` in any rule holds it back in processes with another number. Error(usage) for anything else.
void set_faults(std::string_view text, int process);

/// set_faults(MILLRACE_FAULT) if that is set and not empty. The process is its number under mpirun, 0 without.
void set_faults_from_environment();

namespace detail {
/// Asked by the seam. none while no hook is set.
[[nodiscard]] FileFault ask_file_hook(FileOperation operation, std::string_view path, std::uint64_t bytes, std::string_view target = {});
}  // namespace detail

}  // namespace millrace::runtime
