// TensorBoardSink: a run for TensorBoard, in the folder tensorboard/ of its own: scalars of steps and evaluations under the
// names of docs/records.md, histograms, the recipe and other events' details as text. The layout is that of PyTorch's
// SummaryWriter.
//
// Each process of the run begins a file; one that resumes tells readers to drop the steps that it does again.
#pragma once

#include <memory>
#include <string>

#include "weft/report/records/appended_file.h"
#include "weft/report/records/record_sink.h"

namespace weft {

class TensorBoardSink : public RecordSink {
 public:
  /// Throws as RecordFiles does.
  TensorBoardSink(const std::string& folder, int64_t steps_done);

  std::string name() const override { return "run.tensorboard"; }
  void add(const Record& record) override;
  void flush() override;

 private:
  void write_early();

  std::unique_ptr<AppendedFile> file_;
  std::string waiting_;
};

}  // namespace weft
