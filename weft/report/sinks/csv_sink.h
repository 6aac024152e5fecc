// CsvSink: a run's steps as metrics.csv and its evaluations as evaluations.csv (RFC 4180), for spreadsheets and data frames.
//
// The columns are "step", "time", then the values in the order in which they first come. A value that comes later adds a
// column: rows before it end earlier. Resuming is as in record_files.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/report/records/appended_file.h"
#include "weft/report/records/record_sink.h"

namespace weft {

class CsvSink : public RecordSink {
 public:
  /// Throws as RecordFiles does.
  CsvSink(const std::string& folder, int64_t steps_done);

  std::string name() const override { return "run.csv"; }
  void add(const Record& record) override;
  void flush() override;

 private:
  /// A file whose first columns are given, and the others added as they come.
  class Table {
   public:
    Table(const std::string& path, std::vector<std::string> first, int64_t steps_done);
    void add(std::vector<std::string> cells, const RecordValues& values);
    void flush();

   private:
    void write_header();

    std::string path_;
    std::unique_ptr<AppendedFile> file_;
    std::vector<std::string> columns_;
    size_t first_;         ///< columns that are given
    bool is_new_ = false;  ///< the header is to be written
    std::string waiting_;
  };
  Table metrics_, evaluations_;
};

}  // namespace weft
