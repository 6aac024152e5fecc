! Module `weft`: the functions of weft.h, whose comments hold here too. It is compiled with the program:
! gfortran weft.f90 program.f90 -lweft_c
! It is Fortran 2018, as optional arguments of functions in C are.
!
! Texts end with c_null_char. Dimensions are in C's order, the last one running fastest: those of a Fortran array from back to
! front. An argument that may be null is optional, or a type(c_ptr).
module weft
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: weft_ok = 0, weft_error = 1, weft_input_error = 2, weft_comm_error = 3, weft_memory_error = 4, &
    weft_numeric_error = 5
  integer(c_int32_t), parameter :: weft_float32 = 1, weft_float64 = 2, weft_int32 = 3, weft_int64 = 4
  integer(c_int32_t), parameter :: weft_host = 0, weft_device = 1

  type, bind(c) :: weft_array
    type(c_ptr) :: data = c_null_ptr
    type(c_ptr) :: shape = c_null_ptr    ! of integer(c_int64_t)
    type(c_ptr) :: strides = c_null_ptr  ! the same
    integer(c_int32_t) :: dims = 0, type = 0, borrowed = 0, memory = weft_host
  end type

  type, bind(c) :: weft_step
    integer(c_int64_t) :: step, targets
    real(c_double) :: loss, gradient_norm, learning_rate
    integer(c_int32_t) :: skipped
  end type

  type, bind(c) :: weft_evaluation
    integer(c_int64_t) :: targets, hits
    real(c_double) :: loss
  end type

  interface
    function weft_version() bind(c)
      import :: c_ptr
      type(c_ptr) :: weft_version
    end function
    function weft_last_error() bind(c)
      import :: c_ptr
      type(c_ptr) :: weft_last_error
    end function

    integer(c_int) function weft_world_from_environment(timeout_s, world) bind(c)
      import :: c_int, c_double, c_ptr
      real(c_double), value :: timeout_s
      type(c_ptr), intent(out) :: world
    end function
    integer(c_int) function weft_world_join(rank, size, address, timeout_s, world) bind(c)
      import :: c_int, c_char, c_double, c_ptr
      integer(c_int), value :: rank, size
      character(kind=c_char), intent(in) :: address(*)
      real(c_double), value :: timeout_s
      type(c_ptr), intent(out) :: world
    end function
    integer(c_int) function weft_world_place(world, rank, size) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: world
      integer(c_int), intent(out), optional :: rank, size
    end function
    subroutine weft_world_free(world) bind(c)
      import :: c_ptr
      type(c_ptr), value :: world
    end subroutine

    ! log: a subroutine (type(c_ptr), value :: context, line) with bind(c), or c_null_funptr
    integer(c_int) function weft_trainer_make(world, recipe, log, context, trainer) bind(c)
      import :: c_int, c_char, c_ptr, c_funptr
      type(c_ptr), value :: world, context
      character(kind=c_char), intent(in) :: recipe(*)
      type(c_funptr), value :: log
      type(c_ptr), intent(out) :: trainer
    end function
    subroutine weft_trainer_free(trainer) bind(c)
      import :: c_ptr
      type(c_ptr), value :: trainer
    end subroutine
    integer(c_int) function weft_trainer_share(trainer, first, count) bind(c)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: trainer
      integer(c_int64_t), intent(out), optional :: first, count
    end function
    integer(c_int) function weft_trainer_step(trainer, inputs, num_inputs, target, result) bind(c)
      import :: c_int, c_ptr, weft_array, weft_step
      type(c_ptr), value :: trainer
      type(weft_array), intent(in) :: inputs(*), target
      integer(c_int), value :: num_inputs
      type(weft_step), intent(out), optional :: result
    end function
    integer(c_int) function weft_trainer_evaluate(trainer, inputs, num_inputs, target, result) bind(c)
      import :: c_int, c_ptr, weft_array, weft_evaluation
      type(c_ptr), value :: trainer
      type(weft_array), intent(in) :: inputs(*), target
      integer(c_int), value :: num_inputs
      type(weft_evaluation), intent(out), optional :: result
    end function
    integer(c_int) function weft_trainer_predict(trainer, inputs, num_inputs, outputs, num_outputs) bind(c)
      import :: c_int, c_ptr, weft_array
      type(c_ptr), value :: trainer
      type(weft_array), intent(in) :: inputs(*), outputs(*)
      integer(c_int), value :: num_inputs, num_outputs
    end function

    integer(c_int) function weft_trainer_save(trainer, path, replace) bind(c)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: trainer
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: replace
    end function
    integer(c_int) function weft_trainer_load(trainer, path, step) bind(c)
      import :: c_int, c_char, c_int64_t, c_ptr
      type(c_ptr), value :: trainer
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), intent(out), optional :: step
    end function
    integer(c_int) function weft_trainer_load_weights(trainer, path) bind(c)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: trainer
      character(kind=c_char), intent(in) :: path(*)
    end function
    integer(c_int) function weft_trainer_keep(trainer, name, value) bind(c)
      import :: c_int, c_char, c_ptr, weft_array
      type(c_ptr), value :: trainer
      character(kind=c_char), intent(in) :: name(*)
      type(weft_array), intent(in) :: value
    end function
    ! visit: a subroutine (type(c_ptr), value :: context, name; type(weft_array), intent(in) :: value) with bind(c)
    integer(c_int) function weft_trainer_visit_weights(trainer, visit, context) bind(c)
      import :: c_int, c_ptr, c_funptr
      type(c_ptr), value :: trainer, context
      type(c_funptr), value :: visit
    end function
  end interface

contains

  ! Text of the last call in this thread that failed.
  function weft_error_text() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    integer :: i
    call c_f_pointer(weft_last_error(), bytes, [2048])
    text = ''
    do i = 1, size(bytes)
      if (bytes(i) == c_null_char) exit
      text = text // bytes(i)
    end do
  end function

end module
