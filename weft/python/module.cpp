// weft._weft: the module of Python (weft/trainer.py is what its users see). Nothing here that waits holds Python's lock.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "weft/base/error.h"
#include "weft/base/storage_error.h"
#include "weft/python/python_trainer.h"

namespace py = pybind11;
using weft::python::BlockOfPython;
using weft::python::PythonDataset;
using weft::python::PythonTrainer;
using weft::python::StepOfPython;

namespace {

const char* text_of(const c10::Error& error) { return error.what_without_backtrace(); }

/// The class `name` of weft/errors.py.
py::object error_class(const char* name) { return py::module_::import("weft.errors").attr(name); }

void raise(const char* name, const char* text) { PyErr_SetString(error_class(name).ptr(), text); }

/// Exceptions of C++ as Python's, of weft/errors.py; those of Python's that crossed C++ are themselves again.
void translate(std::exception_ptr thrown) {  // NOLINT(performance-unnecessary-value-param): pybind11 names this type
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (python_error& error) {
    error.restore();
  } catch (const weft::InputError& error) {
    raise("InputError", error.what());
  } catch (const weft::CommError& error) {
    raise("CommError", error.what());
  } catch (const weft::MemoryError& error) {
    raise("OutOfMemoryError", error.what());
  } catch (const weft::NumericError& error) {
    raise("NumericError", error.what());
  } catch (const weft::Error& error) {
    raise("Error", error.what());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, text_of(error));
  }
}

std::string text_of_step(const StepOfPython& step) {
  return fmt::format(
      "Step(step={}, samples={}, loss={:.6g}, targets={}, gradient_norm={:.6g}, learning_rate={:.6g}, skipped={}, "
      "seconds={:.6g})",
      step.step, step.samples, step.loss, step.targets, step.gradient_norm, step.learning_rate, step.skipped ? "True" : "False",
      step.seconds);
}

}  // namespace

PYBIND11_MODULE(_weft, module) {
  py::register_local_exception_translator(translate);
  const auto unlocked = py::call_guard<py::gil_scoped_release>();

  module.def(
      "place",
      [](double timeout_s) {
        const weft::World& world = weft::python::this_world(timeout_s);
        return std::make_pair(world.rank(), world.size());
      },
      py::arg("timeout_s"), unlocked);

  py::class_<BlockOfPython>(module, "Block")
      .def(py::init([](std::string name, std::string prefix, std::vector<std::tuple<std::string, at::Tensor, bool>> tensors,
                       std::vector<std::string> embeddings, std::vector<std::string> unsaved, std::vector<int> uses,
                       py::object forward) {
             return BlockOfPython{std::move(name),    std::move(prefix),
                                  std::move(tensors), {.embeddings = std::move(embeddings), .unsaved = std::move(unsaved)},
                                  std::move(uses),    std::move(forward)};
           }),
           py::arg("name"), py::arg("prefix"), py::arg("tensors"), py::arg("embeddings"), py::arg("unsaved"), py::arg("uses"),
           py::arg("forward"));

  py::class_<PythonDataset, std::shared_ptr<PythonDataset>>(module, "Dataset")
      .def(py::init<int64_t, py::object>(), py::arg("size"), py::arg("fetch"));

  py::class_<StepOfPython>(module, "Step", "Results of a step.")
      .def("__repr__", text_of_step)
      .def_readonly("step", &StepOfPython::step)
      .def_readonly("samples", &StepOfPython::samples)
      .def_readonly("loss", &StepOfPython::loss)
      .def_readonly("targets", &StepOfPython::targets)
      .def_readonly("gradient_norm", &StepOfPython::gradient_norm)
      .def_readonly("learning_rate", &StepOfPython::learning_rate)
      .def_readonly("skipped", &StepOfPython::skipped)
      .def_readonly("seconds", &StepOfPython::seconds);

  py::class_<PythonTrainer>(module, "Trainer")
      .def(py::init<std::string, std::vector<BlockOfPython>, py::object, py::object>(), py::arg("recipe"), py::arg("blocks"),
           py::arg("loss"), py::arg("log"))
      .def("step", &PythonTrainer::step, py::arg("inputs"), py::arg("target"), unlocked)
      .def("read", &PythonTrainer::read, py::arg("data"), py::arg("shuffle"), py::arg("workers"), unlocked)
      .def("next_step", &PythonTrainer::next_step, unlocked)
      .def("end_reading", &PythonTrainer::end_reading, py::arg("limit_s"), unlocked)
      .def("stop_reading", &PythonTrainer::stop_reading, py::arg("limit_s"), unlocked)
      .def(
          "evaluate",
          [](PythonTrainer& trainer, const std::shared_ptr<PythonDataset>& data) {
            const weft::EvaluationResult result = trainer.evaluate(data);
            return std::make_tuple(result.loss, result.count, result.hits);
          },
          py::arg("data"), unlocked)
      .def("predict", &PythonTrainer::predict, py::arg("inputs"), py::arg("gathered"), unlocked)
      .def("gather", &PythonTrainer::gather, py::arg("values"), py::arg("what"), unlocked)
      .def("save", &PythonTrainer::save, py::arg("path"), py::arg("replace"), py::arg("in_background"), unlocked)
      .def("finish_save", &PythonTrainer::finish_save, unlocked)
      .def("load", &PythonTrainer::load, py::arg("path"), py::arg("strict"), unlocked)
      .def("load_weights", &PythonTrainer::load_weights, py::arg("path"), py::arg("names"), py::arg("skip"), unlocked)
      .def("keep", &PythonTrainer::keep, py::arg("name"), py::arg("save"), py::arg("load"))
      .def("weights", &PythonTrainer::weights, py::arg("averaged"), unlocked)
      .def("zero_gradients", &PythonTrainer::zero_gradients, unlocked)
      .def("share", &PythonTrainer::share)
      .def("steps", &PythonTrainer::steps)
      .def("rank", [](const PythonTrainer& trainer) { return trainer.trainer().world_group().rank(); })
      .def("size", [](const PythonTrainer& trainer) { return trainer.trainer().world_group().size(); })
      .def("steps_done", [](const PythonTrainer& trainer) { return trainer.trainer().steps_done(); })
      .def("samples_done", [](const PythonTrainer& trainer) { return trainer.trainer().samples_done(); })
      .def("global_batch", [](const PythonTrainer& trainer) { return trainer.trainer().global_batch(); })
      .def("learning_rate", [](const PythonTrainer& trainer) { return trainer.trainer().learning_rate(); });
}
